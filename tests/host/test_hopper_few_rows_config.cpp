// Few rows of a block-scaled product on Hopper: a stage's parts, the pipeline, what TMA reads, how many CTAs share k,
// and which tile is taken.
#include <initializer_list>
#include <string_view>

#include "block_scaled_problem.h"
#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm90/heuristics/select_scaled.h"
#include "expect.h"

namespace {

using namespace tileon;

constexpr int kTiles[] = {8, 16, 32, 64};
constexpr auto kE8M0 = ScaleType::kE8M0, kE4M3 = ScaleType::kE4M3;
constexpr sm90::SmallMFormat kSmallMFormats[] = {
    {e4m3, e4m3, kE8M0}, {e4m3, e2m1, kE8M0}, {e2m1, e4m3, kE8M0}, {e2m1, e2m1, kE8M0}, {e2m1, e2m1, kE4M3},
};
constexpr sm90::SmallMFormat kWeightOnlyFormats[] = {
    {DType::kBFloat16, e2m1, kE8M0},
    {DType::kBFloat16, e2m1, kE4M3},
    {DType::kBFloat16, e4m3, kE8M0},
    {DType::kFloat16, e2m1, kE4M3},
};
// Weights whose float32 scales multiply sums.
constexpr sm90::SmallMFormat kFloat32ScaledFormats[] = {
    {DType::kBFloat16, e4m3, ScaleType::kFloat32},
    {DType::kBFloat16, DType::kInt8, ScaleType::kFloat32},
    {DType::kFloat16, e4m3, ScaleType::kFloat32},
    {DType::kFloat16, DType::kInt8, ScaleType::kFloat32},
};

void check_stage(const sm90::SmallMFormat& format, int tile_m) {
  const sm90::SmallMStage stage(format, tile_m);
  const int scale_bytes = format.scale_blocks() * kScaleBlockBytes;
  const bool is_alone = format.is_weight_only();  // a's elements lie where they came, and have no scales
  const int begins[] = {0, stage.elements_a, stage.codes_a, stage.scales_b, stage.scales_a, stage.bytes};
  const int sizes[] = {sm90::kSmallMTileN * sm90::kSmallMLineBytes,
                       is_alone ? 0 : tile_m * format.stage_k() * sm90::kElementBytes, tile_m * format.line_bytes_a(),
                       scale_bytes, is_alone ? 0 : scale_bytes};
  for (int i = 0; i < 5; ++i) expect(begins[i] + sizes[i] <= begins[i + 1], "a stage's parts lie apart");
  expect(stage.elements_a % 1024 == 0 && stage.bytes % 1024 == 0 && sm90::kBarrierBytes % 1024 == 0,
         "swizzled parts begin at multiples of 1024 bytes in every stage");
  expect(stage.codes_a % (is_alone ? 1024 : 128) == 0,
         "TMA writes a box to a multiple of 128 bytes, a swizzled one of whose lines eight are a unit to 1024");
  expect(stage.scales_b % 16 == 0 && stage.scales_a % 16 == 0, "a bulk copy goes to a multiple of 16 bytes");
  expect(format.box_bytes_a() <= 256 && tile_m <= 256, "a side of TMA's box is at most 256");
  expect(format.line_bytes_a() % format.box_bytes_a() == 0, "a stage has whole boxes");
  if (format.has_float32_scales())
    expect(scale_bytes == 0 && format.stage_k() == format.vec(), "a stage has one float32 scale, which stays outside");
  else
    expect(format.stage_k() % (format.vec() * kScaleBlockCols) == 0, "a stage has whole blocks of scales");
}

void check_pipeline(const sm90::SmallMFormat& format, int tile_m) {
  const int parts = sm90::small_m_parts(tile_m), stages = sm90::small_m_stages(format, tile_m);
  expect(stages % parts == 0, "a stage is always the same consumers'");
  expect(stages >= 2 * parts, "consumers give a stage back when they have their next one: there must be two for each");
  expect(stages <= sm90::kSmallMMaxStages, "no more stages than there are barriers for");
  const int pipeline = stages * sm90::SmallMStage(format, tile_m).bytes;
  for (const int used : {1, stages}) {
    const int bytes = sm90::small_m_shared_bytes(format, tile_m, used);
    expect(bytes <= sm90::kSmemLimit, "a CTA has as much shared memory");
    const int begin = sm90::small_m_staging_begin(tile_m, used * sm90::SmallMStage(format, tile_m).bytes);
    expect(bytes >= sm90::kBarrierBytes + begin + sm90::small_m_staging_bytes(tile_m), "the sums fit in their place");
    expect(used == 1 || bytes >= sm90::kBarrierBytes + pipeline, "so does the pipeline");
  }
  expect(sm90::small_m_staging_bytes(tile_m) == parts * tile_m * sm90::kSmallMPitch * 4 &&
             sm90::kSmallMPitch >= sm90::kSmallMTileN,
         "each part of k has sums of its own");
  expect(sm90::small_m_consumers(tile_m) * 64 == parts * sm90::kSmallMTileN, "64 rows of b for each consumer");
  expect(sm90::small_m_threads(tile_m) <= 1024, "a CTA has as many threads");
}

// Of a stage that TMA and wgmma lay out by the address, no byte may move when k or the pipeline goes on.
void check_sizes() {
  const auto check = [](const sm90::SmallMFormat& format) {
    for (const int tile_m : kTiles) {
      check_stage(format, tile_m);
      check_pipeline(format, tile_m);
    }
  };
  for (const sm90::SmallMFormat& format : kSmallMFormats) check(format);
  for (const sm90::SmallMFormat& format : kWeightOnlyFormats) check(format);
  for (const sm90::SmallMFormat& format : kFloat32ScaledFormats) check(format);
}

Problem nvfp4_of(int64_t m, int64_t n, int64_t k) { return problem_of(m, n, k, e2m1, e2m1, kE4M3); }

bool runs(const Problem& problem, const Gpu& gpu = kH200) {
  const bool may = sm90::why_not_small_m(problem, gpu) == nullptr;
  const int config = sm90::choose_block_scaled(problem, gpu);
  expect(may || config < 0 || sm90::kBlockScaledConfigs[config].operands != sm90::Operands::kCodes,
         "few rows are chosen only where they can run");
  return may;
}

void check_operands() {
  for (const int bytes : {1, 4, 8, 15})
    for (const bool of_b : {false, true}) {
      Problem moved = problem_of(16, 200, 544), padded = moved;
      Operand& operand = of_b ? moved.b : moved.a;
      operand.data = reinterpret_cast<const void*>(uintptr_t{4096} + bytes);
      expect(!runs(moved), "TMA reads from multiples of 16 bytes");
      (of_b ? padded.b : padded.a).stride_mn += bytes;
      expect(!runs(padded), "rows begin at multiples of 16 bytes");
      const char* reason = sm90::why_not_small_m(moved, kH200);
      expect(reason != nullptr &&
                 std::string_view(reason) == (of_b ? "it cannot read the strides or the alignment of `b`"
                                                   : "it cannot read the strides or the alignment of `a`"),
             "the reason names the operand");
    }
  Problem padded = problem_of(16, 200, 544);
  padded.a.stride_mn += 16;
  padded.b.stride_mn += 160;
  expect(runs(padded), "rows may lie apart");
  Problem apart = problem_of(16, 200, 544);
  apart.b.stride_k = 2;
  expect(!runs(apart), "bytes of a row may not");
  Problem expanded = problem_of(16, 200, 544);
  expanded.a.stride_mn = 0;
  expect(!runs(expanded), "nor may all rows be one");
  Problem one_row = problem_of(1, 1, 544);
  one_row.a.stride_mn = one_row.b.stride_mn = 7;
  expect(runs(one_row), "the stride of one row is never used");
  expect(!runs(nvfp4_of(16, 200, 528)) && runs(nvfp4_of(16, 200, 544)), "nvfp4's rows of an odd number of blocks");
  expect(!runs(problem_of(16, 200, 544), kAda), "another GPU");
  constexpr int64_t limit = int64_t{1} << 31;
  expect(!runs(problem_of(1, limit, 32)) && !runs(problem_of(1, 1, limit)), "TMA's coordinates have 31 bits");
  expect(sm90::why_not_small_m(problem_of(1 << 26, 1 << 20, 32), kH200) != nullptr, "and so has a grid");
}

Problem weight_only(const sm90::SmallMFormat& format, int64_t m, int64_t n, int64_t k) {
  Problem problem = problem_of(m, n, k, format.a, format.b, format.scale);
  problem.a.scale = {};
  return problem;
}

bool may_run(const Problem& problem) { return sm90::why_not_small_m(problem, kH200) == nullptr; }

// By these kernels or by those that read the weight straight into registers (test_hopper_direct_weight_config.cpp).
bool is_chosen(const Problem& problem) {
  const int config = sm90::choose_block_scaled(problem, kH200);
  if (config < 0) return false;
  const sm90::Operands operands = sm90::kBlockScaledConfigs[config].operands;
  return operands == sm90::Operands::kCodes || operands == sm90::Operands::kDirectWeight;
}

void check_weight_only() {
  const auto runs = may_run;
  for (const sm90::SmallMFormat& format : kWeightOnlyFormats) {
    for (const int m : {1, 32, 128}) {
      const Problem problem = weight_only(format, m, 200, 544);
      expect(runs(problem) && (m > 32 || is_chosen(problem)), "a weight alone may be few rows'");
    }
    expect(!is_chosen(weight_only(format, 257, 200, 544)), "of few rows alone");
    Problem moved = weight_only(format, 16, 200, 544), padded = moved, rows = moved, other = moved;
    moved.a.data = reinterpret_cast<const void*>(uintptr_t{4096} + 8);
    expect(!runs(moved), "TMA reads a from multiples of 16 bytes");
    padded.a.stride_mn += 4;
    expect(!runs(padded), "a's rows begin there too");
    padded.a.stride_mn += 4;
    expect(runs(padded), "strides count elements");
    rows.global_scale_stride = 1;
    other.a.dtype = format.a == DType::kFloat16 ? DType::kBFloat16 : DType::kFloat16;
    expect(runs(rows), "a global scale for each row");
    expect(runs(other) == (format.scale == kE4M3), "float16 holds elements of nvfp4 alone");
  }
  expect(!runs(weight_only(kWeightOnlyFormats[1], 16, 200, 528)), "nvfp4's rows of an odd number of blocks");
}

// Where a global scale for each row comes with scales that change along k, what takes the rows beyond these multiplies
// in float32: more rows are few then.
void check_float32_scaled_weight() {
  for (const sm90::SmallMFormat& format : kFloat32ScaledFormats) {
    const auto rows_of = [&](int64_t m) {
      Problem problem = weight_only(format, m, 256, 544);
      problem.b.scale.strides = {kScaleBlockRows, 0, 1, 32, 0};
      return problem;
    };
    const auto blocks_of = [&](int64_t m) {
      Problem problem = weight_only(format, m, 256, 544);
      problem.b.scale.strides = {5, 4, 0, 0, 1};  // five scales for 128 rows
      return problem;
    };
    expect(is_chosen(rows_of(1)) && is_chosen(rows_of(32)) && !is_chosen(rows_of(257)),
           "scales of rows: more of them are converted in the main loop");
    const auto with_global_rows = [&](int64_t m) {
      Problem problem = rows_of(m);
      problem.global_scale_stride = 1;
      return problem;
    };
    expect(is_chosen(with_global_rows(384)) && !is_chosen(with_global_rows(385)),
           "and a global scale for each row, which those kernels do not take");
    const bool has_others = format.b == e4m3;  // the op takes no int8 with scales of blocks
    expect(is_chosen(blocks_of(1)) && is_chosen(blocks_of(32)) && is_chosen(blocks_of(257)) != has_others,
           "as codes of e4m3 under scales of blocks are");
    Problem blocks_and_rows = blocks_of(8192);
    blocks_and_rows.global_scale_stride = 1;
    expect(is_chosen(blocks_and_rows), "of which, with a global scale for each row, no other kernel takes any number");
    Problem one_a_row = rows_of(16), other_weight = rows_of(16), other_a = rows_of(16), moved = rows_of(16);
    one_a_row.global_scale_stride = 1;
    other_weight.b.dtype = DType::kFloat8E5M2;
    other_a.a.dtype = format.a == DType::kFloat16 ? DType::kBFloat16 : DType::kFloat16;
    moved.b.stride_mn += 8;
    expect(may_run(one_a_row), "a global scale for each row");
    expect(!may_run(other_weight), "neither dtype of a has a kernel for e5m2");
    expect(may_run(other_a), "a may be either");
    expect(!may_run(moved), "rows begin at multiples of 16 bytes");
  }
}

// What the kernels are instantiated with, and what the table says of it.
void check_table() {
  int count = 0;
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (config.operands != sm90::Operands::kCodes) continue;
    const sm90::TileConfig& tile = config.tile;
    expect(tile.family == sm90::Family::kSmallM && tile.tile_m == kTiles[count++] &&
               tile.tile_n == sm90::kSmallMTileN && tile.block_k == kSmallMFormats[3].stage_k() &&
               tile.consumers == sm90::small_m_consumers(tile.tile_m) && tile.max_stages == sm90::kSmallMMaxStages &&
               tile.tile_m <= sm90::kSmallMMaxTileM,
           "the table has the kernel's sizes, of mxfp4", config.name);
  }
  expect(count == 4, "each tile has a config");
}

void check_choice() {
  const auto chosen = [](const Problem& problem) {
    return sm90::kBlockScaledConfigs[sm90::choose_block_scaled(problem, kH200)];
  };
  for (const int tile : {0, 1, 2, 3}) {
    const int most = kTiles[tile], least = tile == 0 ? 1 : kTiles[tile - 1] + 1;
    for (const int m : {least, most})
      for (const sm90::SmallMFormat& format : kWeightOnlyFormats) {
        const int config = sm90::choose_small_m(weight_only(format, m, 200, 544), kH200);
        expect(sm90::kBlockScaledConfigs[config].tile.tile_m == most,
               "of a weight alone scaled the least tile that holds the rows is taken");
      }
    for (const sm90::SmallMFormat& format : kSmallMFormats) {
      const Problem problem = problem_of(kTiles[tile], 8192, 8192, format.a, format.b, format.scale);
      const sm90::KernelConfig config = chosen(problem);
      expect(config.operands == sm90::Operands::kCodes && config.tile.tile_m == kTiles[tile],
             "so it is of two operands, where the weight is large");
    }
  }
  const sm90::KernelConfig small = chosen(problem_of(64, 200, 544, e4m3, e4m3));
  expect(small.operands == sm90::Operands::kCodes && small.tile.tile_m < 64,
         "where the weight is small more CTAs decode fewer rows of a");
  for (const int m : {65, 128, 129}) {
    const sm90::KernelConfig config = chosen(problem_of(m, 8192, 8192));
    expect((config.operands == sm90::Operands::kCodes) == (m < 129) && (m == 129 || config.tile.tile_m == 64),
           "up to 128 rows of a large weight are few, in two tiles");
  }
}

// Of few rows of `b`, and of a short k, every way is weighed, the portable kernels too (weigh_block_scaled).
void check_small_products() {
  const auto packed = [](int64_t m, int64_t n, int64_t k, DType a, DType b) {
    Problem problem = problem_of(m, n, k, a, b);
    for (Operand* operand : {&problem.a, &problem.b}) {
      operand->scale.data = reinterpret_cast<const void*>(uintptr_t{4096});
      operand->scale.strides = packed_scales(k / operand->scale.vec);
    }
    return problem;
  };
  const auto is_few = [](const Problem& problem) {
    const int config = sm90::choose_block_scaled(problem, kH200);
    return sm90::kBlockScaledConfigs[config].operands == sm90::Operands::kCodes;
  };
  Problem few_of_b = packed(1088, 25, 8352, e4m3, e4m3);
  expect(is_few(few_of_b), "few rows of b are decoded beside any number of a's");
  few_of_b.may_slice_k = false;
  expect(!is_few(few_of_b), "but not where results may have to be batch invariant");
  expect(!is_few(packed(4096, 4096, 4096, e4m3, e4m3)), "many rows of both are not");
  const Problem short_k = packed(349, 16, 32, e2m1, e2m1);
  const Choice of_hopper = sm90::weigh_block_scaled(short_k, kH200);
  expect(of_hopper.compared_ns > sm80::choose_block_scaled(short_k, kH200).compared_ns,
         "the portable kernels are expected to be faster with a short k");
  Problem long_k = packed(613, 8, 864, e2m1, e2m1);
  expect(sm90::weigh_block_scaled(long_k, kH200).compared_ns > 0, "and are held against the time");
  long_k.a.scale = {};
  long_k.a.dtype = DType::kBFloat16;
  expect(sm90::weigh_block_scaled(long_k, kH200).compared_ns < 0, "of a weight alone they are not");
}

int splits(const Problem& problem, int tile_m) { return sm90::small_m_splits(problem, tile_m, kH200); }

void check_splits() {
  expect(splits(problem_of(16, 8192, 8192), 16) == 2, "64 tiles for 132 SMs: two CTAs each");
  expect(splits(problem_of(16, 128, 8192), 16) == 8, "one tile has as many as there can be");
  expect(splits(problem_of(16, 5120, 8192), 16) == 2, "40 clusters of three do not run at once");
  expect(splits(problem_of(16, 3968, 8192), 16) == 3 && splits(problem_of(16, 3840, 8192), 16) == 4,
         "30 clusters of four run at once on an H200");
  for (const int tile_m : kTiles)
    for (const sm90::SmallMFormat& format : kSmallMFormats)
      for (const int64_t n : {1, 128, 1000, 5000, 132 * 128})
        for (int64_t k = 0; k < 12 * format.stage_k(); k += 2 * format.vec()) {
          const int64_t stages = (k + format.stage_k() - 1) / format.stage_k();
          const int count = splits(problem_of(tile_m, n, k, format.a, format.b, format.scale), tile_m);
          expect(count == 1 || count <= stages, "no more CTAs than blocks of k");
          expect(n < 132 * 128 || count == 1, "one where the tiles alone fill the GPU");
        }
}

// The shapes by which tests/test_hopper_few_rows.py reaches each count.
void check_shapes_of_the_gpu_tests() {
  constexpr struct {
    int tiles, stages, ctas;
  } kShapes[] = {{70, 9, 1},  {60, 9, 2}, {39, 10, 3}, {20, 11, 4}, {22, 9, 5},
                 {17, 11, 6}, {15, 7, 7}, {1, 8, 8},   {2, 100, 8}};
  for (const int tile_m : kTiles)
    for (const sm90::SmallMFormat& format : kSmallMFormats)
      for (const auto& shape : kShapes) {
        const int64_t n = (shape.tiles - 1) * 128 + 5, k = (shape.stages - 1) * format.stage_k() + 96;
        const Problem problem = problem_of(tile_m - 1, n, k, format.a, format.b, format.scale);
        expect(runs(problem) && splits(problem, tile_m) == shape.ctas, "the GPU tests' shapes reach every count");
      }
}

void check_scales() {
  const auto in_blocks = [](uintptr_t address, const ScaleStrides& strides) {
    return sm90::lie_in_blocks({reinterpret_cast<const void*>(address), kE8M0, 32, strides});
  };
  const ScaleStrides packed = packed_scales(17);
  expect(in_blocks(4096, packed) && in_blocks(4112, packed), "packed scales are copied");
  expect(!in_blocks(4104, packed), "but from multiples of 16 bytes alone");
  expect(!in_blocks(4096, flat_scales(17, 1)) && !in_blocks(4096, flat_scales(16, 1)) &&
             !in_blocks(4096, flat_scales(1, 128)),
         "2-D scales are not");
  const auto with = [&](int64_t ScaleStrides::* stride, int64_t value) {
    ScaleStrides changed = packed;
    changed.*stride = value;
    return in_blocks(4096, changed);
  };
  expect(!with(&ScaleStrides::col, 2) && !with(&ScaleStrides::quarter, 5) && !with(&ScaleStrides::row, 20) &&
             !with(&ScaleStrides::col_block, 528) && !with(&ScaleStrides::row_block, packed.row_block + 8),
         "nor are packed ones with gaps");
  expect(with(&ScaleStrides::row_block, 0) && with(&ScaleStrides::row_block, packed.row_block + 16),
         "blocks of rows may lie anywhere");
}

}  // namespace

int main() {
  check_sizes();
  check_operands();
  check_weight_only();
  check_float32_scaled_weight();
  check_table();
  check_choice();
  check_small_products();
  check_splits();
  check_shapes_of_the_gpu_tests();
  check_scales();
  return report("hopper few rows config");
}
