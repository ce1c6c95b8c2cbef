// Hopper's block-scaled table: what is prepared, the choice of a config, and the memory that prepared operands take.

#include <algorithm>
#include <iterator>
#include <string_view>

#include "block_scaled_problem.h"
#include "cuda/sm90/heuristics/select_scaled.h"
#include "expect.h"

namespace {

using namespace tileon;

const char* name_of(sm90::Operands operands) {
  switch (operands) {
    case sm90::Operands::kBFloat16:
      return "bfloat16";
    case sm90::Operands::kInt8:
      return "int8";
    case sm90::Operands::kE5M2:
      return "float8";
    default:
      return "few_rows";
  }
  return "";
}

bool is_prepared(sm90::Operands operands) {
  return operands == sm90::Operands::kBFloat16 || sm90::is_by_encoding(operands);
}

void check_table() {
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (!is_prepared(config.operands)) continue;
    const sm90::TileConfig tile = sm90::tile_of(config, sm90::Encoding::kBFloat16);
    for (const sm90::Encoding encoding : {sm90::Encoding::kInt8, sm90::Encoding::kBFloat16, sm90::Encoding::kE5M2}) {
      const sm90::TileConfig of_encoding = sm90::tile_of(config, encoding);
      expect(sm90::persistent(of_encoding) && !of_encoding.swapped() && of_encoding.consumer_rows() <= 128,
             "a thread's rows of exponents are two bytes for each 64 rows of its consumer, in one word", config.name);
      expect(of_encoding.threads() == tile.threads() && of_encoding.tile_m == tile.tile_m &&
                 of_encoding.tile_n == tile.tile_n,
             "the encodings of a config share its launch", config.name);
      expect(of_encoding.block_k * of_encoding.element_bytes == tile.block_k * tile.element_bytes,
             "and the bytes of its stages", config.name);
      const bool promoted = config.operands == sm90::Operands::kE5M2 && encoding == sm90::Encoding::kE5M2;
      const int sums = of_encoding.consumer_rows() / 64 * of_encoding.mma_columns() / 2 * (promoted ? 2 : 1);
      expect(sums <= (of_encoding.takes_registers ? 192 : 128), "all sums fit the registers", config.name);
    }
    expect(tile.consumers * 4 <= sm90::kSummaryWords, "a word of the summary for each consuming warp", config.name);
    char name[64];
    const bool ping_pong = config.operands != sm90::Operands::kE5M2 && tile.family == sm90::Family::kPingpong;
    std::snprintf(name, sizeof(name), "sm90_block_scaled_%s_%s%dx%dx%d", name_of(config.operands),
                  ping_pong ? "pingpong_" : "", tile.tile_m, tile.tile_n, config.tile.block_k);
    expect(std::string_view(name) == config.name, config.name);
    if (config.operands == sm90::Operands::kBFloat16)
      expect(config.like >= 0, "it has a dense config's numbers", config.name);
  }
}

void check_forms() {
  using sm90::Encoding, sm90::encoding_of, sm90::kBeyondFloat8, sm90::kBeyondInt8;
  for (const bool fast_accum : {false, true}) {
    expect(encoding_of(0, fast_accum) == Encoding::kInt8, "what fits int8 is exact whatever is allowed");
    expect(encoding_of(kBeyondInt8 | kBeyondFloat8, fast_accum) == Encoding::kBFloat16, "what fits nothing else");
  }
  expect(encoding_of(kBeyondInt8, false) == Encoding::kBFloat16, "e5m2 rounds");
  expect(encoding_of(kBeyondInt8, true) == Encoding::kE5M2, "which fast_accum allows");
}

Problem with_fast_accum(Problem problem) {
  problem.fast_accum = true;
  return problem;
}

sm90::Operands operands_of(const Problem& problem) {
  return sm90::kBlockScaledConfigs[sm90::choose_block_scaled(problem, kH200)].operands;
}

void check_choice() {
  using sm90::Operands;
  expect(operands_of(problem_of(4096, 4096, 4096)) == Operands::kInt8, "mxfp4 is int8");
  expect(operands_of(problem_of(4096, 4096, 4096, e4m3, e4m3)) == Operands::kBFloat16, "mxfp8");
  expect(operands_of(problem_of(4096, 4096, 4096, e4m3, e2m1)) == Operands::kBFloat16, "mixed");
  expect(operands_of(problem_of(4096, 4096, 4096, e2m1, e2m1, ScaleType::kE4M3)) == Operands::kBFloat16, "nvfp4");
  expect(operands_of(problem_of(1024, 1024, 1024)) == Operands::kBFloat16, "where that saves more than it costs");
  expect(operands_of(problem_of(256, 256, sm90::kInt8MaxK)) == Operands::kInt8, "as long as int32 holds the sums");
  expect(operands_of(problem_of(256, 256, sm90::kInt8MaxK + 32)) == Operands::kBFloat16, "no longer");
  expect(operands_of(with_fast_accum(problem_of(4096, 4096, 4096))) == Operands::kE5M2, "with fast_accum");
  expect(operands_of(with_fast_accum(problem_of(1024, 1024, 1024))) == Operands::kBFloat16, "where that pays, too");
  expect(operands_of(with_fast_accum(problem_of(4096, 4096, 992))) == Operands::kInt8,
         "in short sums few products make up for another's loss");
  expect(operands_of(with_fast_accum(problem_of(4096, 4096, 4096, e4m3, e4m3))) == Operands::kFoldedE4M3,
         "e5m2 is for mxfp4 alone");
  for (const DType a : {e4m3, e2m1}) {
    expect(operands_of(with_fast_accum(problem_of(128, 8192, 8192, a, e4m3))) == Operands::kFoldedE4M3,
           "mxfp8, folded");
    expect(operands_of(with_fast_accum(problem_of(128, 8192, 8192, a, e2m1))) == Operands::kFoldedE2M1, "fp4, folded");
    for (const DType b : {e4m3, e2m1})
      expect(!sm90::is_folded_weight(operands_of(problem_of(128, 8192, 8192, a, b))), "a fold rounds");
  }
  expect(operands_of(problem_of(64, 8192, 8192)) == Operands::kCodes, "few rows of a are not prepared");
  expect(operands_of(problem_of(8192, 64, 8192)) == Operands::kInt8, "beside few of b they are");
  expect(sm90::choose_block_scaled(problem_of(4096, 4096, 0), kH200) < 0, "nor is nothing");
  expect(sm90::choose_block_scaled(problem_of(4096, 4096, 4096), kAda) < 0, "another GPU");
  expect(sm90::why_not(Operands::kInt8, problem_of(1, 1, 32, e4m3, e4m3), kH200) != nullptr, "int8 refuses mxfp8");
  expect(sm90::why_not(Operands::kE5M2, problem_of(1, 1, 32, e4m3, e4m3), kH200) != nullptr, "and e5m2");
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs)
    expect((sm90::why_not(config.operands, problem_of(1, 1, 32), kH200) == nullptr) ==
               (is_prepared(config.operands) || config.operands == Operands::kCodes ||
                config.operands == Operands::kFoldedE2M1),
           "every config that prepares operands, decodes both or folds them, takes mxfp4 of any size", config.name);
}

// e4m3 with float32 scales that do not change along k: of the whole operands, or of their rows.
Problem with_scales(int64_t m, int64_t n, int64_t k, bool of_rows) {
  Problem problem = problem_of(m, n, k, e4m3, e4m3, ScaleType::kFloat32);
  problem.out_dtype = DType::kBFloat16;
  if (of_rows) problem.a.scale.strides = problem.b.scale.strides = {kScaleBlockRows, 0, 1, 32, 0};
  return problem;
}

// By the times of benchmarks/results/h200/scaled_operands.csv at dd4f9f8: of these products, each with both kinds of
// scales, promoted configs were faster in those that take them.
void check_promoted_with_fast_accum() {
  using sm90::Operands;
  constexpr int64_t weights[][2] = {{4096, 7168}, {7168, 2048}, {8192, 8192}, {24576, 1536}};
  constexpr auto fast = Operands::kFp8Rows, promoted = Operands::kFp8RowsPromoted;
  for (const bool of_rows : {false, true}) {
    for (const auto& [n, k] : weights)
      for (int64_t m = 16; m <= 8192; m *= 2) {
        const Problem precise = with_scales(m, n, k, of_rows), may_be_fast = with_fast_accum(precise);
        expect(operands_of(precise) == promoted, "no sum stays in the tensor core unless it may");
        const bool is_promoted_faster = m == 256 && n > 4096;
        expect(operands_of(may_be_fast) == (is_promoted_faster ? promoted : fast), "the faster one of both kinds");
        Problem whole_k = may_be_fast;
        whole_k.may_slice_k = false;
        expect(sm90::choose_block_scaled(whole_k, kH200) == sm90::choose_block_scaled(may_be_fast, kH200),
               "neither kind slices k");
      }
    const auto name = [&](int64_t n, int64_t k) {
      const Problem problem = with_fast_accum(with_scales(256, n, k, of_rows));
      return std::string_view(sm90::kBlockScaledConfigs[sm90::choose_block_scaled(problem, kH200)].name);
    };
    expect(name(8192, 8192) == "sm90_scaled_fp8_128x128x128", "a tile that promotes behind");
    expect(name(24576, 1536) == "sm90_scaled_fp8_128x192x128", "or another one");

    // The tuner's candidates.
    const Problem precise = with_scales(256, 8192, 8192, of_rows), may_be_fast = with_fast_accum(precise);
    for (const Operands operands : {fast, promoted})
      expect(sm90::why_not(operands, may_be_fast, kH200) == nullptr && sm90::may_choose(operands, may_be_fast),
             "with fast_accum all are candidates");
    expect(sm90::may_choose(promoted, precise) && !sm90::may_choose(fast, precise), "else the promoted ones");
    expect(!sm90::may_choose(promoted, with_scales(256, 8192, 0, of_rows)), "and none without k");
  }
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs)
    expect((config.operands != fast && config.operands != promoted) || !sm90::shares_tiles(config),
           "the order of their sums does not depend on the number of rows", config.name);
}

// A 16-bit a without scales: b is prepared as bfloat16, a is multiplied where it lies.
void check_weight_only() {
  using sm90::Operands;
  const auto weight_only = [](DType a, DType b, ScaleType type = ScaleType::kE8M0) {
    Problem problem = problem_of(4096, 4096, 4096, b, b, type);
    problem.a = {{problem.a.data, problem.k, 1, 0}, a, {}};
    return problem;
  };
  for (const DType b : {e2m1, e4m3}) {
    const Problem problem = weight_only(DType::kBFloat16, b);
    expect(operands_of(problem) == Operands::kBFloat16, "bfloat16 meets bfloat16");
    expect(sm90::prepared_problem(problem, nullptr, nullptr).a.data == problem.a.data, "a stays where it is");
    expect(sm90::scratch_of(problem, Operands::kBFloat16).b == 0, "and takes no memory");
    expect(sm90::why_not(Operands::kCodes, problem, kH200) == nullptr, "kernels of few rows may multiply it, too");
    expect(sm90::choose_block_scaled(weight_only(DType::kFloat16, b), kH200) < 0, "bfloat16 does not hold float16");
  }
  expect(operands_of(weight_only(DType::kBFloat16, e2m1, ScaleType::kE4M3)) == Operands::kBFloat16, "nvfp4");
  expect(operands_of(weight_only(DType::kBFloat16, e4m3, ScaleType::kFloat32)) == Operands::kWeightCodes,
         "float32 scales");
  Problem blocks = weight_only(DType::kBFloat16, e4m3, ScaleType::kFloat32);
  blocks.b.scale.strides = {32, kScaleBlockCols, 0, 0, 1};  // 128 x 128
  expect(operands_of(blocks) == Operands::kWeightBlocks, "that change along k");
  expect(sm90::why_not(Operands::kWeightCodes, blocks, kH200) != nullptr, "kernels of scales of rows do not take them");
  Problem across = weight_only(DType::kBFloat16, e2m1);
  across.a.stride_mn = 1;
  across.a.stride_k = 4097;
  expect(sm90::choose_block_scaled(across, kH200) < 0, "an a that TMA cannot read");
  Problem one_a_row = weight_only(DType::kBFloat16, e2m1);
  one_a_row.global_scale_stride = 1;
  expect(sm90::choose_block_scaled(one_a_row, kH200) < 0, "2-D scales, and a global scale for each row");
}

// Weights in blocks of packed scales, which the main loop can decode, each with a bfloat16 a and with one of its
// format.
void check_decoded_weights() {
  using sm90::Operands;
  const auto packed = [](int64_t m, DType a, DType b, ScaleType type = ScaleType::kE8M0) {
    const bool is_wide = a == DType::kBFloat16 || a == DType::kFloat16;
    Problem problem = problem_of(m, 8192, 8192, is_wide ? b : a, b, type);
    problem.b.scale.data = reinterpret_cast<const void*>(uintptr_t{4096});
    problem.b.scale.strides = packed_scales(problem.k / problem.b.scale.vec);
    if (is_wide) problem.a = {{problem.a.data, problem.k, 1, 0}, a, {}};
    return problem;
  };
  constexpr ScaleType of_nvfp4 = ScaleType::kE4M3;
  for (const int64_t m : {192, 256}) {
    expect(operands_of(packed(m, DType::kBFloat16, e2m1)) == Operands::kFp4Weight, "mxfp4 alone");
    expect(operands_of(packed(m, DType::kBFloat16, e2m1, of_nvfp4)) == Operands::kFp4Weight, "nvfp4 alone");
    for (const ScaleType type : {ScaleType::kE8M0, of_nvfp4}) {
      const Problem half = packed(m, DType::kFloat16, e2m1, type);
      expect(operands_of(half) == Operands::kFp4Weight, "float16");
      expect(sm90::why_not(Operands::kMxfp8Weight, packed(m, DType::kFloat16, e4m3), kH200) != nullptr, "of fp4 alone");
    }
    expect(operands_of(packed(m, e2m1, e2m1)) == Operands::kFp4Weight, "mxfp4, whose a is prepared");
    expect(operands_of(packed(m, e2m1, e2m1, of_nvfp4)) == Operands::kFp4Weight, "nvfp4");
    expect(operands_of(packed(m, e4m3, e2m1)) == Operands::kFp4Weight, "mixed");
    Problem one_a_row = packed(m, e2m1, e2m1, of_nvfp4);
    one_a_row.global_scale_stride = 1;
    expect(operands_of(one_a_row) == Operands::kFp4Weight, "with a global scale for each row");
    expect(sm90::fold_pays(with_fast_accum(packed(m, e4m3, e2m1)), kH200) == 0, "no fold is as fast");
  }
  expect(operands_of(packed(8192, e2m1, e2m1)) == Operands::kInt8, "large products pay for more");
  expect(sm90::fold_pays(with_fast_accum(packed(8192, e4m3, e2m1)), kH200) == 1, "a fold, too");
  expect(sm90::fold_pays(packed(8192, e4m3, e2m1), kH200) == 0, "which fast_accum alone allows");
  expect(sm90::fold_pays(with_fast_accum(packed(8192, e2m1, e2m1)), kH200) == 0, "int8 is faster than mxfp4's");
  Problem middle = with_fast_accum(packed(1024, e2m1, e2m1));
  middle.n = middle.k = 2048;
  expect(sm90::fold_pays(middle, kH200) == 1, "but not of middle sizes");
  expect(sm90::fold_pays(with_fast_accum(packed(64, e4m3, e2m1)), kH200) == 0, "few rows go without");
  Problem small = with_fast_accum(packed(100, e4m3, e2m1));
  small.n = 16, small.k = 32;
  expect(sm90::fold_pays(small, kH200) == 0, "nothing small is folded");
  Problem short_k = with_fast_accum(packed(7416, e4m3, e4m3));
  short_k.n = 297, short_k.k = 64;
  expect(sm90::fold_pays(short_k, kH200) == 0, "nor is a short k");
}

Problem with_weight(Problem problem, PreparedForm form) {
  static char weight;
  problem.prepared_b = {&weight, form};
  return problem;
}

void check_choice_of_prepared_weights() {
  using sm90::Operands;
  constexpr auto int8 = PreparedForm::kInt8, bfloat16 = PreparedForm::kBFloat16;
  expect(operands_of(problem_of(128, 8192, 8192)) == Operands::kCodes, "128 rows are few");
  for (const PreparedForm form : {int8, bfloat16}) {
    const Operands prepared = form == int8 ? Operands::kInt8 : Operands::kBFloat16;
    expect(operands_of(with_weight(problem_of(64, 8192, 8192), form)) == Operands::kCodes,
           "so are 64 of a prepared weight");
    expect(operands_of(with_weight(problem_of(129, 129, 32), form)) == prepared, "small: nothing is saved by another");
    expect(operands_of(with_weight(problem_of(8192, 8192, 8192), form)) == prepared, "or large");
    expect(sm90::choose_block_scaled(with_weight(problem_of(8192, 64, 8192), form), kH200) < 0,
           "few of b are not prepared");
    expect(sm90::choose_block_scaled(with_weight(problem_of(4096, 4096, 0), form), kH200) < 0, "nor is nothing");
  }
  expect(operands_of(with_weight(problem_of(65, 8192, 8192), int8)) == Operands::kInt8, "65 are not");
  expect(operands_of(with_weight(problem_of(65, 65, 32), int8)) == Operands::kInt8, "however small");
  expect(operands_of(with_weight(problem_of(65, 64, 32), int8)) == Operands::kCodes,
         "few of b are not multiplied prepared");
  expect(operands_of(with_weight(problem_of(128, 8192, 8192), bfloat16)) == Operands::kCodes,
         "four times the codes' bytes take longer to read");
  expect(operands_of(with_fast_accum(with_weight(problem_of(65, 65, 1024), int8))) == Operands::kE5M2,
         "with fast_accum");
  expect(operands_of(with_fast_accum(with_weight(problem_of(4096, 4096, 4096), bfloat16))) == Operands::kBFloat16,
         "of int8 weights alone");
  expect(operands_of(with_weight(problem_of(256, 256, sm90::kInt8MaxK + 32), int8)) == Operands::kBFloat16,
         "what int32 does not hold takes the codes");
  expect(operands_of(with_weight(problem_of(65, 65, 32, e4m3, e4m3), bfloat16)) == Operands::kBFloat16,
         "twice do not: mxfp8");
}

// Worst case: every product 96 * 96.
static_assert(sm90::kInt8MaxK * 96 * 96 <= (int64_t{1} << 31) - 1);

void check_scratch() {
  using sm90::Operands;
  for (const Problem& problem : {problem_of(1, 1, 32), problem_of(129, 255, 96), problem_of(512, 64, 8224)})
    for (const Operands operands : {Operands::kInt8, Operands::kE5M2, Operands::kBFloat16}) {
      const int64_t words = sm90::is_by_encoding(operands) ? sm90::classify_ctas(problem)
                                                           : sm90::prepare_ctas(problem, sm90::segments_of(problem));
      const sm90::Scratch scratch = sm90::scratch_of(problem, operands);
      const int64_t begins[] = {
          0, scratch.b, scratch.exponents_a, scratch.exponents_b, scratch.words, scratch.summary, scratch.bytes};
      const int64_t sizes[] = {problem.m * problem.k * 2, problem.n * problem.k * 2, problem.m, problem.n, words * 4,
                               sm90::kSummaryWords * 4};
      for (int i = 0; i < 6; ++i)
        expect(begins[i] % 256 == 0 && begins[i] + sizes[i] <= begins[i + 1], "parts lie apart, at multiples of 256");
    }
  const Problem with_bfloat16 = with_weight(problem_of(512, 512, 64), PreparedForm::kBFloat16);
  const sm90::Scratch of_a = sm90::scratch_of(with_bfloat16, Operands::kBFloat16);
  expect(of_a.exponents_a == of_a.b, "a weight that is bfloat16 takes no memory");
  const Problem long_rows = problem_of(9, 8, 1056);
  expect(sm90::segments_of(problem_of(9, 8, 0)) == 1 && sm90::segments_of(long_rows) == 2 &&
             sm90::prepare_ctas(long_rows, 2) == 6,
         "a CTA for each segment of eight rows");
  const Problem large = problem_of(4096, 4096, 8192);
  expect(sm90::mxfp4_segments_of(large, 8192) == 1 && sm90::mxfp4_segments_of(large, 4096) == 2 &&
             sm90::mxfp4_segments_of(large, 65) == 8 && sm90::mxfp4_segments_of(large, 0) == 1,
         "of mxfp4 as few segments as keep the GPU busy");
  expect(sm90::classify_ctas(problem_of(129, 128, 32)) == 3, "a CTA for each block of 128 rows of scales");
}

// Kernels with 192 sums a thread have no registers for gelu beside them, and stage the sums, which takes twice as long.
void check_activations() {
  const auto stages = [](const sm90::KernelConfig& config, const Problem& problem) {
    return is_prepared(config.operands) && sm90::persistent(config.tile) &&
           !sm90::takes_activated_store(config.operands, config.tile, problem);
  };
  int others = 0;
  for (const DType b : {e4m3, e2m1})
    for (const int64_t m : {1024, 2423, 7200})
      for (const int64_t n : {1080, 4096, 15384})
        for (const int64_t k : {608, 1280, 4096}) {
          Problem problem = problem_of(m, n, k, b, b);
          const sm90::KernelConfig& plain = sm90::kBlockScaledConfigs[sm90::choose_block_scaled(problem, kH200)];
          problem.epilogue.activation = Activation::kGelu;
          const sm90::KernelConfig& curved = sm90::kBlockScaledConfigs[sm90::choose_block_scaled(problem, kH200)];
          expect(!stages(curved, problem), "gelu goes by a kernel that has registers for it", curved.name);
          others += stages(plain, problem);
        }
  expect(others > 0, "the plain product may go by others");
}

}  // namespace

int main() {
  check_table();
  check_activations();
  check_forms();
  check_choice();
  check_promoted_with_fast_accum();
  check_weight_only();
  check_decoded_weights();
  check_choice_of_prepared_weights();
  check_scratch();
  return report("hopper block-scaled config");
}
