// Few rows of `a` by a weight that alone has scales, each warp for itself (small_m/direct.cuh): sizes, what the kernels
// take, and how long they are expected to. Data and pure functions, compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/host_device.h"
#include "core/problem.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/small_m.h"

namespace tileon::sm90 {

constexpr int kPanelRowsOfB = 16, kPanelRowsOfA = 8;  // of mma.sync
constexpr int kDirectMaxWarps = 16;                   // of a CTA
constexpr int kDirectChunkK = 128;                    // that a warp takes at a time

// Loads of sixteen bytes of each row by each of four lanes, in a chunk.
constexpr int direct_pieces(const SmallMFormat& format) { return kDirectChunkK / (4 * format.chunk()); }

// A tile's panels lie as far apart as rows whose packed scales are neighbours (formats.h), which then come from the
// same sectors: up to four of them.
constexpr int kPanelRowsApart = kScaleRowsApart;
constexpr int kPanelsOfBlock = kScaleBlockRows / kPanelRowsOfB;
TILEON_HOST_DEVICE constexpr int direct_first_row(int tile, int panels) {
  const int tiles = kPanelsOfBlock / panels, of_block = tile % tiles;
  constexpr int in_a_row = kPanelRowsApart / kPanelRowsOfB;
  return tile / tiles * kScaleBlockRows + of_block % in_a_row * kPanelRowsOfB +
         of_block / in_a_row * panels * kPanelRowsApart;
}
static_assert(direct_first_row(1, 2) == 16 && direct_first_row(2, 2) == 64 && direct_first_row(5, 2) == 144);

constexpr int direct_tiles_n(int64_t n, int tile_n) {
  return ceil_divide(n, kScaleBlockRows) * (kScaleBlockRows / tile_n);
}

// A row of sums in shared memory: where a warp writes a fragment, its lanes meet different banks.
TILEON_HOST_DEVICE constexpr int direct_pitch(int tile_n) { return tile_n + 4; }

// A warp's own part of shared memory: stages of `a`, a chunk of k each, and in the end its sums.
constexpr int kDirectStages = 2;
TILEON_HOST_DEVICE constexpr int direct_warp_bytes(int tile_m, int tile_n) {
  const int stages = kDirectStages * tile_m * kDirectChunkK * 2, sums = tile_m * direct_pitch(tile_n) * 4;
  return stages > sums ? stages : sums;
}

constexpr int direct_shared_bytes(int tile_m, int tile_n, int warps) {
  return warps * direct_warp_bytes(tile_m, tile_n);
}

// ---- what the kernels take ----

inline const char* why_not_direct_weight(const Problem& problem, const Gpu& gpu) {
  if (!problem.is_weight_only()) return "it takes a weight alone with scales";
  const SmallMFormat format = format_of(problem);
  const char* reason = is_float16_by_mxfp4(problem) ? nullptr : why_not_small_m_weight(problem);
  if (reason != nullptr) return reason;
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  if (format.has_float32_scales()) {
    if (!is_constant_along_k(problem.b, problem.k)) return "it takes float32 scales that do not change along k";
  } else if (!lie_in_blocks(problem.b.scale)) {
    return "it takes packed scales";
  }
  if (problem.k == 0) return "k is 0";
  if (problem.k % format.chunk() != 0) return "it takes rows of whole sixteen bytes of codes";
  constexpr int64_t limit = (int64_t{1} << 31) - (1 << 16);  // with what tiles reach past the end
  if (problem.m >= limit || problem.n >= limit || problem.k >= limit) return "a size is near 2^31 or above it";
  const int64_t tiles = int64_t{ceil_divide(problem.m, kPanelRowsOfA)} * direct_tiles_n(problem.n, kPanelRowsOfB);
  if (tiles >= limit) return "there are too many tiles";
  return why_not_access(tma_reads_codes(problem.a, problem.m, problem.k),
                        tma_reads_codes(problem.b, problem.n, problem.k));
}

// Codes of 8 bits have no room in registers for more than one panel.
constexpr bool has_direct_room(const TileConfig& tile, DType b) {
  return tile.tile_n == kPanelRowsOfB || b == DType::kFloat4E2M1;
}
inline const char* why_not_direct_tile(const TileConfig& tile, const Problem& problem) {
  return has_direct_room(tile, problem.b.dtype) ? nullptr : "it takes a weight of fp4";
}

// ---- the choice ----

// How many warps an SM's registers hold, by the kernels of the tile: a quarter of them in each of its four parts.
constexpr int warps_of_sm(const TileConfig& tile, const SmallMFormat& format) {
  const bool is_fp4 = format.b == DType::kFloat4E2M1, is_mxfp8 = !is_fp4 && !format.has_float32_scales();
  if (tile.tile_n > kPanelRowsOfB || is_mxfp8) return 16;
  if (tile.tile_m > kPanelRowsOfA) return is_fp4 ? 20 : 16;
  const bool has_windows = is_fp4 && format.a == DType::kFloat16 && format.scale == ScaleType::kE8M0;
  return is_fp4 && !has_windows ? 24 : 20;
}

// Warps of a CTA: as many as an SM holds beside those of the other tiles that fall to it, but no more than it takes for
// as few chunks a warp. They do not hang on the number of rows.
constexpr int kDirectLeastWarps = 4;
inline int direct_warps(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  const int tiles_of_sm = ceil_divide(direct_tiles_n(problem.n, tile.tile_n), gpu.sm_count);
  const int held = warps_of_sm(tile, format_of(problem));
  const int most = std::clamp(held / tiles_of_sm, kDirectLeastWarps, kDirectMaxWarps);
  const int chunks = ceil_divide(problem.k, kDirectChunkK);
  return ceil_divide(chunks, ceil_divide(chunks, most));
}

inline int64_t direct_tiles(const TileConfig& tile, const Problem& problem) {
  return int64_t{ceil_divide(problem.m, tile.tile_m)} * direct_tiles_n(problem.n, tile.tile_n);
}

// What the kernels take, in nanoseconds: `start` once; `round` for each round of CTAs; `panel` for a panel of the
// weight in a chunk of k, and `row` more for each row of `a`; `kilobyte` for each one of the weight, which all SMs wait
// for. These numbers, and those of few rows below, are fitted to 44 weights beside bfloat16 on an H200, by 1 to 16 rows
// in CUDA graphs, those with k of whole chunks four times over. They differ from the times of
// direct_and_few_rows.csv.xz, which were taken later, by 5 to 11 %, root mean square. Beside float16 they are taken to
// be the same.
struct DirectNumbers {
  double start, round, panel, row, kilobyte;
};
inline DirectNumbers direct_numbers(const TileConfig& tile, const SmallMFormat& format) {
  const bool is_wide = tile.tile_n > kPanelRowsOfB, has_few = tile.tile_m == kPanelRowsOfA;
  const auto of = [&](DirectNumbers few, DirectNumbers few_wide, DirectNumbers more, DirectNumbers more_wide) {
    return has_few ? (is_wide ? few_wide : few) : (is_wide ? more_wide : more);
  };
  if (format.scale == ScaleType::kE4M3)
    return of({1585, 767, 40.9, 0.4, 0.090}, {546, 2109, 40.6, 0.2, 0.064}, {916, 1584, 48.5, 0.6, 0.120},
              {116, 2894, 42.2, 0.6, 0.067});
  if (format.b == DType::kFloat4E2M1)
    return of({1142, 1143, 37.3, 0.4, 0.115}, {419, 2098, 33.6, 0.2, 0.104}, {996, 1456, 48.3, 0.6, 0.131},
              {355, 2574, 37.4, 0.6, 0.083});
  const auto of_narrow = [&](DirectNumbers few, DirectNumbers more) { return has_few ? few : more; };
  if (format.scale == ScaleType::kE8M0)
    return of_narrow({1420, 1045, 50.1, 0.4, 0.131}, {1264, 1472, 60.3, 0.7, 0.104});
  if (format.b == DType::kInt8) return of_narrow({1558, 1012, 30.2, 0.7, 0.170}, {1947, 1187, 41.1, 0.9, 0.149});
  return of_narrow({1537, 1153, 49.9, 0.6, 0.113}, {1456, 1827, 50.1, 0.7, 0.105});
}

inline int direct_tiles_of_sm(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  return static_cast<int>(ceil_divide(direct_tiles(tile, problem), gpu.sm_count));
}
// Rounds of CTAs, of which each SM runs as many at once as it holds warps.
inline int direct_rounds(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  const int at_once = std::max(1, warps_of_sm(tile, format_of(problem)) / direct_warps(tile, problem, gpu));
  return ceil_divide(direct_tiles_of_sm(tile, problem, gpu), at_once);
}

inline double direct_ns(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  const SmallMFormat format = format_of(problem);
  const DirectNumbers numbers = direct_numbers(tile, format);
  const int tiles_of_sm = direct_tiles_of_sm(tile, problem, gpu);
  const double panels = static_cast<double>(tile.tile_n / kPanelRowsOfB) * tiles_of_sm *
                        static_cast<double>(ceil_divide(problem.k, kDirectChunkK));
  const double rows = static_cast<double>(std::min<int64_t>(problem.m, tile.tile_m));
  const double scale_bits = format.has_float32_scales() ? 0.0 : 8.0 / format.vec();
  const double kilobytes = 1e-3 * (SmallMFormat::bits(format.b) + scale_bits) / 8.0 * static_cast<double>(problem.n) *
                           static_cast<double>(problem.k);
  return numbers.start + numbers.round * direct_rounds(tile, problem, gpu) +
         panels * (numbers.panel + rows * numbers.row) + kilobytes * numbers.kilobyte;
}

constexpr int64_t kDirectRows = kPanelRowsOfA, kWeighedDirectRows = 2 * kPanelRowsOfA;

// What the kernels for few rows take up to 16 rows: `start` once; `round` for a round of clusters; `stage` for a stage
// of a CTA; `share` for each of the CTAs that share k. By tiles of 8 rows, of which fp4 is not weighed, or of 16.
struct FewRowsBesideDirect {
  double start, round, stage, share;
};
inline FewRowsBesideDirect few_rows_beside_direct(const SmallMFormat& format, int tile_m) {
  const auto of = [&](FewRowsBesideDirect of_8, FewRowsBesideDirect of_16) { return tile_m == 8 ? of_8 : of_16; };
  if (format.scale == ScaleType::kE4M3) return {-560, 3161, 872, 216};
  if (format.b == DType::kFloat4E2M1) return {-443, 3066, 826, 216};
  if (format.scale == ScaleType::kE8M0) return of({-333, 3242, 665, 198}, {768, 2881, 674, 123});
  if (format.b == DType::kInt8) return of({-194, 3550, 515, 105}, {943, 3209, 515, 51});
  return of({-137, 3671, 586, 184}, {861, 3430, 592, 109});
}
inline double few_rows_beside_direct_ns(const Problem& problem, const Gpu& gpu) {
  const int tile_m = static_cast<int>(problem.m <= kDirectRows ? kDirectRows : kWeighedDirectRows);
  const FewRowsBesideDirect numbers = few_rows_beside_direct(format_of(problem), tile_m);
  const SmallMWork work(problem, tile_m);
  const int splits = small_m_splits(work, tile_m, gpu);
  return numbers.start + small_m_ns(work, splits, gpu, numbers.round, numbers.stage) +
         (splits > 1 ? numbers.share * splits : 0.0);
}

// Whether the kernels for few rows are expected to be faster, up to 16 rows. Of fp4 up to 8 they were for one weight of
// 44. Of 8 bits they are seldom where all of these kernels' CTAs run at once: there they have to be by as much as what
// is expected errs. Beside float16 they do not take mxfp4.
constexpr double kFewRowsMargin = 1.08;
inline bool are_few_rows_faster(const Problem& problem, double expected_ns, bool is_one_round, const Gpu& gpu) {
  const bool has_few = problem.m <= kDirectRows;
  if (problem.m > kWeighedDirectRows || is_float16_by_mxfp4(problem)) return false;
  if (has_few && problem.b.dtype == DType::kFloat4E2M1) return false;
  return few_rows_beside_direct_ns(problem, gpu) * (has_few && is_one_round ? kFewRowsMargin : 1.0) < expected_ns;
}

// Of 17 to 32 rows by a weight that is not long, these tiles are taken where each SM has one at most, or two of a short
// k. With 32 rows the kernels for few rows took 1.17 to 1.60 times as long as one tile, 0.97 to 1.76 as two
// (direct_and_few_rows.csv.xz). Of longer weights 576 x 23200 alone would gain, up to 1.19.
constexpr int64_t kMaxDirectRows = 4 * kPanelRowsOfA;
constexpr int64_t kDirectKOfOneTile = 8192, kDirectKOfOneWideTile = 4096, kDirectKOfTwoTiles = 1280;
inline bool has_few_direct_tiles(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  const int64_t tiles = direct_tiles(tile, problem);
  if (tiles > gpu.sm_count) return tiles <= 2 * int64_t{gpu.sm_count} && problem.k <= kDirectKOfTwoTiles;
  return problem.k <= (tile.tile_n > kPanelRowsOfB ? kDirectKOfOneWideTile : kDirectKOfOneTile);
}

// Whether the tile is for as many rows of `a` as the problem has, and may be the fastest.
inline bool may_be_fastest_direct(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  const bool has_few = problem.m <= kDirectRows;
  if (has_few != (tile.tile_m == kPanelRowsOfA) || why_not_direct_tile(tile, problem) != nullptr) return false;
  return problem.m <= kWeighedDirectRows || (problem.m <= kMaxDirectRows && has_few_direct_tiles(tile, problem, gpu));
}

}  // namespace tileon::sm90
