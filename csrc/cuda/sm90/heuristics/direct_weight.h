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

constexpr int direct_shared_bytes(int tile_m, int tile_n, int warps) {
  return warps * tile_m * direct_pitch(tile_n) * 4;
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

// ---- the choice: by the times of nine weights on an H100 and an H200; above 8 rows of eight more, of 12 rows ----

// Warps of a CTA: as many as an SM's registers hold (`warps_of_sm`, by the kernels of the tile) beside those of the
// other tiles that fall to it, but no more than it takes for as few chunks a warp. They do not hang on the number of
// rows.
constexpr int warps_of_sm(const TileConfig& tile, const SmallMFormat& format) {
  const bool is_mxfp8 = format.b == DType::kFloat8E4M3 && !format.has_float32_scales();
  return tile.tile_m == kPanelRowsOfA && tile.tile_n == kPanelRowsOfB && !is_mxfp8 ? 20 : 16;
}
constexpr int kDirectLeastWarps = 4;
inline int direct_warps(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  const int tiles_of_sm = ceil_divide(direct_tiles_n(problem.n, tile.tile_n), gpu.sm_count);
  const int held = warps_of_sm(tile, format_of(problem));
  const int most = std::clamp(held / tiles_of_sm, kDirectLeastWarps, kDirectMaxWarps);
  const int chunks = ceil_divide(problem.k, kDirectChunkK);
  return ceil_divide(chunks, ceil_divide(chunks, most));
}

// Rows of the weight in a tile: more of them read `a` less often, where there are tiles enough.
constexpr int kDirectTilesOfSm = 3;
inline bool is_direct_narrow(const Problem& problem, const Gpu& gpu) {
  return direct_tiles_n(problem.n, kPanelRowsOfB) <= kDirectTilesOfSm * gpu.sm_count;
}

// Up to so many rows these kernels are the fastest: of any weight of fp4, of one of 8 bits that is narrow; up to more,
// of one with so few elements, and of mxfp4 beside float16, which those with a pipeline do not take.
constexpr int64_t kDirectRows = kPanelRowsOfA, kMaxDirectRows = 2 * kPanelRowsOfA;
constexpr int64_t kDirectElements = 4096 * 4096, kDirectElementsOfE2M1 = 2560 * 2560;
// Up to 32 rows of a weight of 8 bits that is no longer than this, where each SM has one tile at most: 0.76 to 0.83 of
// the time of the kernels for few rows in four products of an H200, 23 to 32 rows by 608 to 1024 of the weight.
constexpr int64_t kDirectRowsOfOneRound = 4 * kPanelRowsOfA, kDirectKOfOneRound = 4096;
inline bool is_one_round_of_8_bits(const Problem& problem, const Gpu& gpu) {
  const int64_t tiles = int64_t{ceil_divide(problem.m, 2 * kPanelRowsOfA)} * direct_tiles_n(problem.n, kPanelRowsOfB);
  return problem.b.dtype != DType::kFloat4E2M1 && problem.m <= kDirectRowsOfOneRound &&
         problem.k <= kDirectKOfOneRound && tiles <= gpu.sm_count;
}

inline bool is_direct_faster(const Problem& problem, const Gpu& gpu) {
  const bool is_e2m1 = problem.b.dtype == DType::kFloat4E2M1;
  if (problem.m <= kDirectRows) return is_e2m1 || is_direct_narrow(problem, gpu);
  if (problem.m > kMaxDirectRows) return is_one_round_of_8_bits(problem, gpu);
  if (is_float16_by_mxfp4(problem)) return true;
  const int64_t most = is_e2m1 ? kDirectElementsOfE2M1 : kDirectElements;
  return problem.n * problem.k <= most;
}

struct DirectTile {
  int m, n;

  DirectTile(const Problem& problem, const Gpu& gpu)
      : m(problem.m <= kDirectRows ? kPanelRowsOfA : 2 * kPanelRowsOfA),
        n(problem.m > kDirectRows || is_direct_narrow(problem, gpu) ? kPanelRowsOfB : 2 * kPanelRowsOfB) {}
};

}  // namespace tileon::sm90
