// Few rows by a weight that is read straight into registers: which rows a tile has, how many warps a CTA, what the
// kernels take, and when they are chosen.
#include <initializer_list>
#include <string_view>
#include <vector>

#include "block_scaled_problem.h"
#include "cuda/sm90/heuristics/select_scaled.h"
#include "expect.h"

namespace {

using namespace tileon;

constexpr auto kE8M0 = ScaleType::kE8M0, kE4M3 = ScaleType::kE4M3, kFloat32 = ScaleType::kFloat32;
constexpr sm90::SmallMFormat kFormats[] = {
    {DType::kBFloat16, e2m1, kE8M0},
    {DType::kBFloat16, e2m1, kE4M3},
    {DType::kFloat16, e2m1, kE4M3},
    {DType::kBFloat16, e4m3, kE8M0},
    {DType::kBFloat16, e4m3, kFloat32},
    {DType::kFloat16, e4m3, kFloat32},
    {DType::kBFloat16, DType::kInt8, kFloat32},
    {DType::kFloat16, DType::kInt8, kFloat32},
};

Problem weight_of(const sm90::SmallMFormat& format, int64_t m, int64_t n, int64_t k) {
  Problem problem = problem_of(m, n, k, format.a, format.b, format.scale);
  problem.a.scale = {};
  problem.b.scale.strides = format.has_float32_scales() ? flat_scales(1, 0) : packed_scales(k / format.vec());
  return problem;
}

bool is_direct(int config) {
  return config >= 0 && sm90::kBlockScaledConfigs[config].operands == sm90::Operands::kDirectWeight;
}

// The rows of all tiles, by what the kernel's lanes load: each once, and none beyond whole blocks of 128.
void check_rows() {
  for (const int panels : {1, 2, 4})
    for (const int64_t n : {1, 16, 127, 128, 129, 1000}) {
      const int tiles = sm90::direct_tiles_n(n, panels * sm90::kPanelRowsOfB);
      std::vector<int> times(static_cast<size_t>((n + 127) / 128 * 128));
      for (int tile = 0; tile < tiles; ++tile)
        for (int panel = 0; panel < panels; ++panel)
          for (int row = 0; row < sm90::kPanelRowsOfB; ++row) {
            const size_t at = sm90::direct_first_row(tile, panels) + panel * sm90::kPanelRowsApart + row;
            expect(at < times.size(), "a row lies in a block of 128");
            if (at < times.size()) ++times[at];
          }
      for (const int of_row : times) expect(of_row == 1, "every row is one tile's");
    }
}

void check_table() {
  int count = 0;
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (config.operands != sm90::Operands::kDirectWeight) continue;
    const sm90::TileConfig& tile = config.tile;
    ++count;
    expect(tile.family == sm90::Family::kDirectWeight && tile.block_k == sm90::kDirectChunkK &&
               tile.tile_m % sm90::kPanelRowsOfA == 0 && kScaleBlockRows % tile.tile_n == 0,
           "a tile has whole panels", config.name);
    expect(sm90::direct_shared_bytes(tile.tile_m, tile.tile_n, sm90::kDirectMaxWarps) <= sm90::kSmemLimit,
           "the sums of all warps fit", config.name);
  }
  expect(count == 3, "each tile has a config");
  for (const sm90::SmallMFormat& format : kFormats)
    expect(sm90::direct_pieces(format) * 4 * format.chunk() == sm90::kDirectChunkK, "four lanes have a chunk of k");
}

void check_warps() {
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (config.operands != sm90::Operands::kDirectWeight) continue;
    const sm90::TileConfig& tile = config.tile;
    for (const sm90::SmallMFormat& format : kFormats)
      for (int64_t n = 1; n < 40000; n += 301)
        for (const int64_t k : {32, 128, 160, 1024, 2880, 4096, 14336}) {
          const int warps = sm90::direct_warps(tile, weight_of(format, 1, n, k), kH200);
          const int64_t chunks = (k + 127) / 128, of_warp = (chunks + warps - 1) / warps;
          expect(warps >= 1 && warps <= 16 && warps <= chunks, "a CTA has up to 16 warps, each of which has a chunk");
          expect(warps == 1 || (chunks + warps - 2) / (warps - 1) > of_warp, "one less would take longer");
          const int64_t of_sm = (sm90::direct_tiles_n(n, tile.tile_n) + 131) / 132 * warps;
          expect(warps <= 4 || of_sm <= sm90::warps_of_sm(tile, format), "all of them run at once");
        }
  }
  const auto warps = [](int format, int64_t n, int64_t k) {
    const int config = sm90::config_named(sm90::kBlockScaledConfigs, "sm90_weight_direct_8x16x128");
    return sm90::direct_warps(sm90::kBlockScaledConfigs[config].tile, weight_of(kFormats[format], 8, n, k), kH200);
  };
  expect(warps(0, 2048, 2048) == 16 && warps(0, 4096, 4096) == 8 && warps(0, 4096, 14336) == 10 &&
             warps(0, 5120, 8192) == 6 && warps(3, 5120, 8192) == 5,
         "one, two and three tiles an SM, and fewer warps beside mxfp8's registers");
}

void check_operands() {
  const auto runs = [](const Problem& problem, const Gpu& gpu = kH200) {
    return sm90::why_not_direct_weight(problem, gpu) == nullptr;
  };
  for (const sm90::SmallMFormat& format : kFormats) {
    const Problem problem = weight_of(format, 5, 200, 544);
    expect(runs(problem) && !runs(problem, kAda), "Hopper's alone");
    Problem moved = problem, apart = problem, rows = problem, both = problem, no_k = problem, short_k = problem;
    moved.b.data = reinterpret_cast<const void*>(uintptr_t{4096} + 8);
    apart.a.stride_mn += 4;
    expect(!runs(moved) && !runs(apart), "rows begin at multiples of 16 bytes");
    rows.global_scale_stride = 1;
    expect(runs(rows), "a global scale for each row");
    both.a = both.b;
    expect(!runs(both), "a weight alone");
    no_k.k = 0;
    short_k.k -= format.chunk() / 2;
    expect(!runs(no_k) && !runs(short_k), "rows are whole sixteen bytes of codes");
    Problem scales = problem;
    if (format.has_float32_scales())
      scales.b.scale.strides = {5, 4, 0, 0, 1};  // of blocks
    else
      scales.b.scale.strides = flat_scales(17, 1);
    expect(!runs(scales), "scales of rows, or packed ones");
  }
  const Problem half = weight_of({DType::kFloat16, e2m1, kE8M0}, 5, 200, 544);
  expect(runs(half), "float16 beside mxfp4");
  for (const int64_t m : {1, 8, 9, 16, 17}) {
    const int chosen = sm90::choose_block_scaled(weight_of({DType::kFloat16, e2m1, kE8M0}, m, 8192, 8192), kH200);
    const sm90::Operands wanted = m <= 16 ? sm90::Operands::kDirectWeight : sm90::Operands::kFp4Weight;
    expect(chosen >= 0 && sm90::kBlockScaledConfigs[chosen].operands == wanted, "of any size, up to 16 rows");
  }
  expect(!runs(weight_of({DType::kFloat16, DType::kFloat8E4M3, kE8M0}, 5, 200, 544)), "float16 beside mxfp8");
  constexpr int64_t limit = int64_t{1} << 31;
  expect(!runs(weight_of(kFormats[0], 1, limit, 32)) && !runs(weight_of(kFormats[0], 1, 1, limit)) &&
             !runs(weight_of(kFormats[0], 1 << 20, 1 << 20, 32)),
         "sizes and tiles are counted in 31 bits");
}

void check_choice() {
  for (const sm90::SmallMFormat& format : kFormats) {
    const auto chosen = [&](int64_t m, int64_t n, int64_t k) {
      return sm90::choose_block_scaled(weight_of(format, m, n, k), kH200);
    };
    const auto name = [&](int64_t m, int64_t n, int64_t k) {
      return std::string_view(sm90::kBlockScaledConfigs[chosen(m, n, k)].name);
    };
    expect(name(1, 4096, 4096) == "sm90_weight_direct_8x16x128", "16 rows of a weight of few");
    const bool is_fp4 = format.b == e2m1;
    if (is_fp4) expect(name(8, 8192, 8192) == "sm90_weight_direct_8x32x128", "32 of one of many");
    const int64_t most = is_fp4 ? 2560 : 4096;
    expect(name(9, most, most) == "sm90_weight_direct_16x16x128", "16 rows of `a`");
    expect(is_direct(chosen(16, most, most)) && !is_direct(chosen(9, most, most + 32)),
           "up to 16 rows of small weights");
    expect(is_direct(chosen(17, 512, 512)) == !is_fp4 && is_direct(chosen(32, 1024, 4096)) == !is_fp4,
           "up to 32 of 8 bits, in one round of tiles");
    expect(!is_direct(chosen(33, 512, 512)) && !is_direct(chosen(17, 1088, 512)) && !is_direct(chosen(17, 512, 4128)),
           "and no more than that");
    expect(is_direct(chosen(1, 28672, 8192)) == is_fp4, "of 8 bits narrow ones alone");
    for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs)
      if (config.operands == sm90::Operands::kDirectWeight)
        expect((sm90::why_not_direct_tile(config.tile, weight_of(format, 1, 32, 128)) == nullptr) ==
                   (is_fp4 || config.tile.tile_n == 16),
               "32 rows of codes of 8 bits have no room", config.name);
  }
}

}  // namespace

int main() {
  check_rows();
  check_table();
  check_warps();
  check_operands();
  check_choice();
  return report("hopper direct weight config");
}
