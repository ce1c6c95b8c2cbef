// Few rows by a weight that is read straight into registers: which rows a tile has, how many warps a CTA, what a warp
// has of shared memory, what the kernels take, how long, and when they are chosen.
#include <initializer_list>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
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

const sm90::TileConfig& tile_named(std::string_view name) {
  return sm90::kBlockScaledConfigs[sm90::config_named(sm90::kBlockScaledConfigs, name)].tile;
}

// What is chosen on an H200: the tile of one of these kernels, or nothing where it is another kernel.
std::string_view tile_of(const sm90::SmallMFormat& format, int64_t m, int64_t n, int64_t k) {
  const int config = sm90::choose_block_scaled(weight_of(format, m, n, k), kH200);
  if (config < 0 || sm90::kBlockScaledConfigs[config].operands != sm90::Operands::kDirectWeight) return "";
  constexpr std::string_view kBefore = "sm90_weight_direct_", kBehind = "x128";
  std::string_view tile = sm90::kBlockScaledConfigs[config].name;
  tile.remove_prefix(kBefore.size());
  tile.remove_suffix(kBehind.size());
  return tile;
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
  std::set<std::pair<int, int>> tiles;
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (config.operands != sm90::Operands::kDirectWeight) continue;
    const sm90::TileConfig& tile = config.tile;
    ++count;
    expect(tile.family == sm90::Family::kDirectWeight && tile.block_k == sm90::kDirectChunkK &&
               tile.tile_m % sm90::kPanelRowsOfA == 0 && kScaleBlockRows % tile.tile_n == 0,
           "a tile has whole panels", config.name);
    expect(tiles.emplace(tile.tile_m, tile.tile_n).second, "and no other config has them", config.name);

    // A stage of `a` is a chunk of k of each row, in 16 bits. The sums are written over the stages.
    const int warp_bytes = sm90::direct_warp_bytes(tile.tile_m, tile.tile_n);
    const int stages = sm90::kDirectStages * tile.tile_m * tile.block_k * 2;
    const int last_sum = (tile.tile_m - 1) * sm90::direct_pitch(tile.tile_n) + tile.tile_n - 1;
    expect(sm90::kDirectStages == tile.max_stages, "the table has the stages", config.name);
    expect(warp_bytes >= stages && warp_bytes >= (last_sum + 1) * 4, "a warp's stages and sums are its own",
           config.name);
    expect(warp_bytes % 128 == 0, "the stages of every warp begin at a multiple of 128 bytes", config.name);
    expect(sm90::direct_pitch(tile.tile_n) >= tile.tile_n, "rows of sums lie apart", config.name);
    for (int warps = 1; warps <= sm90::kDirectMaxWarps; ++warps) {
      const int bytes = sm90::direct_shared_bytes(tile.tile_m, tile.tile_n, warps);
      expect(bytes == warps * warp_bytes && bytes <= sm90::kSmemLimit, "the parts of all warps fit", config.name);
    }
  }
  expect(count == 4, "each tile has a config");
  for (const sm90::SmallMFormat& format : kFormats)
    expect(sm90::direct_pieces(format) * 4 * format.chunk() == sm90::kDirectChunkK, "four lanes have a chunk of k");
}

void check_warps() {
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (config.operands != sm90::Operands::kDirectWeight) continue;
    const sm90::TileConfig& tile = config.tile;
    for (const sm90::SmallMFormat& format : kFormats) {
      const int held = sm90::warps_of_sm(tile, format);
      expect(held % 4 == 0 && held >= sm90::kDirectMaxWarps, "each quarter of an SM has as many, and a CTA has room");
      for (int64_t n = 1; n < 40000; n += 301)
        for (const int64_t k : {32, 128, 160, 1024, 2880, 4096, 14336}) {
          const int warps = sm90::direct_warps(tile, weight_of(format, 1, n, k), kH200);
          const int64_t chunks = (k + 127) / 128, of_warp = (chunks + warps - 1) / warps;
          expect(warps >= 1 && warps <= 16 && warps <= chunks, "a CTA has up to 16 warps, each of which has a chunk");
          expect(warps == 1 || (chunks + warps - 2) / (warps - 1) > of_warp, "one less would take longer");
          const int64_t of_sm = (sm90::direct_tiles_n(n, tile.tile_n) + 131) / 132 * warps;
          expect(warps <= 4 || of_sm <= held, "all of them run at once");
        }
    }
  }
  const auto warps = [](std::string_view name, int format, int64_t n, int64_t k) {
    return sm90::direct_warps(tile_named(name), weight_of(kFormats[format], 8, n, k), kH200);
  };
  constexpr auto k8x16 = "sm90_weight_direct_8x16x128", k16x16 = "sm90_weight_direct_16x16x128",
                 k16x32 = "sm90_weight_direct_16x32x128";
  expect(warps(k8x16, 0, 2048, 2048) == 16 && warps(k8x16, 0, 4096, 4096) == 11 && warps(k8x16, 0, 4096, 14336) == 12 &&
             warps(k8x16, 0, 5120, 8192) == 8,
         "one, two and three tiles an SM, whose registers hold 24 warps of mxfp4");
  expect(warps(k8x16, 3, 5120, 8192) == 5 && warps(k8x16, 4, 5120, 8192) == 6, "of mxfp8 16, of codes of 8 bits 20");
  expect(warps(k16x16, 0, 5120, 8192) == 6 && warps(k16x16, 4, 5120, 8192) == 5, "fewer of more rows");
  expect(warps(k16x32, 0, 5120, 8192) == 8, "two wide tiles an SM");
}

// What the kernels are expected to take.
void check_times() {
  for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs) {
    if (config.operands != sm90::Operands::kDirectWeight) continue;
    const sm90::TileConfig& tile = config.tile;
    for (const sm90::SmallMFormat& format : kFormats) {
      if (!sm90::has_direct_room(tile, format.b)) continue;
      const auto ns = [&](int64_t m, int64_t n, int64_t k) {
        return sm90::direct_ns(tile, weight_of(format, m, n, k), kH200);
      };
      for (const int64_t n : {1, 128, 1024, 2048, 2176, 4096, 8192, 13312, 28672, 131072})
        for (const int64_t k : {32, 128, 256, 512, 1024, 2880, 8192, 28672}) {
          const double least = ns(1, n, k);
          expect(least > 0.0, "a time is positive", config.name);
          expect(ns(1, n + 128, k) > least, "it grows with the weight's rows", config.name);
          expect(ns(1, n, 2 * k) > least, "and with k", config.name);  // not with every chunk: warps share them
          for (int64_t m = 1; m < tile.tile_m; ++m)
            expect(ns(m + 1, n, k) > ns(m, n, k), "and with the rows of `a`", config.name);
          expect(ns(tile.tile_m + 1, n, k) >= ns(tile.tile_m, n, k), "and of another one", config.name);
        }
      // All memory has to be read: at 4.8 TB/s a kilobyte takes 0.21 ns.
      constexpr int64_t n = 131072, k = 28672;
      const double kilobytes = 1e-3 * sm90::SmallMFormat::bits(format.b) / 8 * n * k;
      expect(ns(1, n, k) > kilobytes * 0.21, "no time is below that of the memory", config.name);
    }
  }
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
    const bool is_fp4 = format.b == e2m1;
    for (const int64_t m : {1, 3, 8})
      for (const int64_t n : {1, 128, 4096, 5120, 14336, 28672, 131072})
        for (const int64_t k : {32, 512, 4096, 28672}) {
          const std::string_view tile = tile_of(format, m, n, k);
          if (is_fp4 || (n <= 5120 && n * k <= 4096 * 4096))
            expect(!tile.empty(), "up to 8 rows of any fp4, and of few codes of 8 bits");
          expect(tile.empty() || tile.starts_with("8x"), "by a tile of 8 rows");
        }
    for (const int64_t m : {9, 12, 16}) {
      expect(tile_of(format, m, 512, 512) == "16x16", "a small weight, by 16 rows of both");
      expect(tile_of(format, m, 2560, 2560).starts_with("16x") && tile_of(format, m, 4096, 4096).starts_with("16x"),
             "up to 16 rows of small weights");
    }
    for (const int64_t m : {17, 32}) {
      const std::string_view wide = is_fp4 ? "16x32" : "";
      expect(tile_of(format, m, 1024, 4096) == "16x16" && tile_of(format, m, 1024, 8192) == "16x16",
             "up to 32 rows where each SM has a tile");
      expect(tile_of(format, m, 1024, 8192 + 32).empty(), "that is not longer");
      expect(tile_of(format, m, 2048, 4096) == wide, "or a wide one");
      expect(tile_of(format, m, 2048, 4096 + 32).empty(), "that is not longer either");
      expect(tile_of(format, m, 1056, 1280).starts_with("16x") && tile_of(format, m, 2048, 1280).starts_with("16x"),
             "or two of a short k");
      expect(tile_of(format, m, 1056, 1280 + 32) == wide, "longer ones are too many");
      expect(tile_of(format, m, 2112, 1280) == wide && tile_of(format, m, 2112, 1280 + 32).empty(),
             "and of wide ones two");
      expect(tile_of(format, m, 4352, 512).empty(), "but never three");
    }
    expect(tile_of(format, 33, 512, 512).empty() && tile_of(format, 33, 32, 32).empty(), "and no more rows");
    for (const sm90::KernelConfig& config : sm90::kBlockScaledConfigs)
      if (config.operands == sm90::Operands::kDirectWeight)
        expect((sm90::why_not_direct_tile(config.tile, weight_of(format, 1, 32, 128)) == nullptr) ==
                   (is_fp4 || config.tile.tile_n == 16),
               "32 rows of codes of 8 bits have no room", config.name);
  }
}

// By times of an H200 (direct_and_few_rows.csv.xz).
void check_choice_of_named_products() {
  struct Named {
    const char* product;
    int64_t m, n, k;
    std::string_view mxfp4, nvfp4, mxfp8, e4m3, int8;
  };
  constexpr Named kNamed[] = {
      {"1 x 2048 x 2048", 1, 2048, 2048, "8x16", "8x16", "8x16", "8x16", "8x16"},
      {"8 x 5120 x 8192", 8, 5120, 8192, "8x16", "8x16", "8x16", "8x16", "8x16"},
      {"8 x 8192 x 8192", 8, 8192, 8192, "8x32", "8x32", "8x16", "8x16", ""},
      {"8 x 14336 x 4096", 8, 14336, 4096, "8x32", "8x32", "8x16", "", ""},
      {"8 x 15104 x 9856", 8, 15104, 9856, "8x32", "8x32", "", "", ""},
      {"8 x 7648 x 20512", 8, 7648, 20512, "8x32", "8x32", "8x16", "", ""},
      {"16 x 2048 x 2048", 16, 2048, 2048, "16x16", "16x16", "16x16", "16x16", "16x16"},
      {"16 x 4096 x 4096", 16, 4096, 4096, "16x32", "16x32", "16x16", "16x16", "16x16"},
      {"16 x 4096 x 14336", 16, 4096, 14336, "16x32", "16x32", "16x16", "16x16", ""},
      {"16 x 8192 x 8192", 16, 8192, 8192, "", "", "", "", ""},
      {"32 x 1024 x 4096", 32, 1024, 4096, "16x16", "16x16", "16x16", "16x16", "16x16"},
      {"32 x 1152 x 512", 32, 1152, 512, "16x16", "16x16", "16x16", "16x16", "16x16"},
      {"32 x 2048 x 2048", 32, 2048, 2048, "16x32", "16x32", "", "", ""},
  };
  for (const Named& named : kNamed) {
    const std::string_view of_format[] = {named.mxfp4, named.nvfp4, named.nvfp4, named.mxfp8,
                                          named.e4m3,  named.e4m3,  named.int8,  named.int8};
    for (size_t i = 0; i < std::size(kFormats); ++i)
      expect(tile_of(kFormats[i], named.m, named.n, named.k) == of_format[i], "the tile of", named.product);
  }
  constexpr sm90::SmallMFormat half{DType::kFloat16, e2m1, kE8M0};
  expect(tile_of(half, 16, 8192, 8192) == "16x32" && tile_of(half, 16, 16384, 16384) == "16x32" &&
             tile_of(half, 32, 1024, 4096) == "16x16" && tile_of(half, 32, 8192, 8192).empty(),
         "mxfp4 beside float16, which no kernels for few rows take up to 16");
}

// From 9 to 16 rows: direct where that is expected to take less.
void check_choice_by_times() {
  for (const sm90::SmallMFormat& format : kFormats)
    for (const int64_t m : {9, 13, 16})
      for (const int64_t n : {128, 2048, 4096, 5120, 8192, 14336, 28672})
        for (const int64_t k : {512, 2048, 4096, 8192, 14336}) {
          const Problem problem = weight_of(format, m, n, k);
          const double narrow = sm90::direct_ns(tile_named("sm90_weight_direct_16x16x128"), problem, kH200);
          const double wide = sm90::direct_ns(tile_named("sm90_weight_direct_16x32x128"), problem, kH200);
          const bool is_wide = format.b == e2m1 && wide < narrow;
          const bool is_direct = (is_wide ? wide : narrow) < sm90::few_rows_beside_direct_ns(problem, kH200);
          expect(tile_of(format, m, n, k) == (!is_direct ? "" : is_wide ? "16x32" : "16x16"), "what takes least");
        }
}

}  // namespace

int main() {
  check_rows();
  check_table();
  check_warps();
  check_times();
  check_operands();
  check_choice();
  check_choice_of_named_products();
  check_choice_by_times();
  return report("hopper direct weight config");
}
