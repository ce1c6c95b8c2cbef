// The Hopper kernels' tile table, the sizes that follow from a row, and what the kernels take: data and pure functions,
// compiled by any C++ compiler. Which row takes a problem: select.h.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/tile_order.h"
#include "cuda/runtime/gpu.h"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/layout/tma_access.h"

namespace tileon::sm90 {

enum class Family : int8_t {
  kCooperative,    // persistent; the warpgroups share each tile by its rows
  kPingpong,       // persistent; two warpgroups take whole tiles in turn, one stores while the other multiplies
  kClusterSplitK,  // one tile a cluster: its CTAs split k and add their sums through each other's shared memory
  kSwapAbSplitK,   // the same, swapped, so that a few rows of a waste nothing
  kSwapAb,         // as kCooperative, swapped: an mn-major b is then read in whole panels whatever the tile's height
};

// Everything that shapes a kernel. A row of the table is used as a template argument as it stands.
struct TileConfig {
  Family family;
  int tile_m;  // of the output
  int tile_n;
  int block_k;     // elements of k in one stage
  int consumers;   // warpgroups that multiply
  int max_stages;  // as many as fit, but no more than these

  // Of two consumers: an even share of the registers does not hold their sums, so they take some of the producer's. In
  // ping-pong those are the sums of a whole tile.
  bool takes_registers = false;

  // The tile as wgmma sees it: rows in units of 64, split evenly over the consumers, and columns in units of 8. The
  // rows are a's, or, swapped, the columns of b.
  constexpr bool swapped() const { return family == Family::kSwapAbSplitK || family == Family::kSwapAb; }
  constexpr int mma_rows() const { return swapped() ? tile_n : tile_m; }
  constexpr int mma_columns() const { return swapped() ? tile_m : tile_n; }
  constexpr int consumer_rows() const { return family == Family::kPingpong ? mma_rows() : mma_rows() / consumers; }
  // Three consumers always need more registers than an even share. The producer has a warpgroup then, three of whose
  // warps are there only to give theirs away.
  constexpr bool reallocates_registers() const { return consumers == 3 || takes_registers; }
  constexpr int threads() const {
    return consumers * 128 + (reallocates_registers() ? 128 : 32);
  }  // and the producer's
};

constexpr int kGroupM = 8;  // rows of tiles in a group (tile_order.h); 2 to 16 lie within 1 %

struct Row {
  const char* name;
  TileConfig tile;
  int splits;       // CTAs of a cluster that share a tile's k
  int ctas_per_sm;  // CTAs that an SM holds at a time
  // What largest_bound_ns (cost.h) makes a time of, in the tables of fp8, int8 and float32. Nanoseconds: before and
  // after the tiles, for a tile, and for each of its k; per_k_mn is for an mn-major b. Bytes a nanosecond: of memory.
  // The numbers of kRows are in cost_numbers.h.
  float start = 0;
  float per_tile = 0;
  float per_k = 0;
  float per_k_mn = 0;
  float bytes_per_ns = 0;
};

// clang-format off
constexpr Row kRows[] = {
    // name                              family              tile m, n, k    consumers, stages, takes registers  splits, ctas_per_sm
    {"sm90_gemm_128x256x64",             {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x240x64",             {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x224x64",             {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x208x64",             {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x176x64",             {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x160x64",             {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x144x64",             {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x128x64",             {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x104x64",             {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1},
    {"sm90_gemm_128x96x64",              {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1},
    {"sm90_gemm_64x176x64",              {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1},
    {"sm90_gemm_64x128x128",             {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1},
    {"sm90_gemm_64x104x128",             {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1},
    {"sm90_gemm_64x96x128",              {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1},
    {"sm90_gemm_64x64x128",              {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1},
    {"sm90_gemm_64x32x128",              {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1},
    {"sm90_pingpong_128x128x64",         {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1},
    {"sm90_pingpong_128x160x64",         {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1},
    {"sm90_pingpong_128x176x64",         {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1},
    {"sm90_pingpong_128x192x64",         {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1},
    {"sm90_swapped_208x128x64",           {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1},
    {"sm90_swapped_176x128x64",           {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1},
    {"sm90_swapped_160x128x64",           {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1},
    {"sm90_swapped_144x128x64",           {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1},
    {"sm90_swapped_104x128x64",           {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1},
    {"sm90_swapped_96x128x64",            {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1},
    {"sm90_swapped_96x64x128",            {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1},
    {"sm90_swapped_104x64x128",           {Family::kSwapAb,        104,  64, 128,  1, 16},  1,  1},
    {"sm90_split2_64x64x128",            {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1},
    {"sm90_split4_64x64x128",            {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1},
    {"sm90_split8_64x64x128",            {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1},
    {"sm90_split2_128x128x64",           {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1},
    {"sm90_split4_128x128x64",           {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1},
    {"sm90_split8_128x128x64",           {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1},
    {"sm90_few_rows_8x64x128",           {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2},
    {"sm90_few_rows_16x64x128",          {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  1,  2},
    {"sm90_few_rows_32x64x128",          {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  1,  2},
    {"sm90_few_rows_64x64x128",          {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2},
    {"sm90_few_rows_8x128x64",           {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2},
    {"sm90_few_rows_16x128x64",          {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2},
    {"sm90_few_rows_32x128x64",          {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2},
    {"sm90_few_rows_64x128x64",          {Family::kSwapAbSplitK,   64, 128,  64,  2,  4},  1,  2},
    {"sm90_few_rows_split2_8x64x128",    {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2},
    {"sm90_few_rows_split2_16x64x128",   {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  2,  2},
    {"sm90_few_rows_split2_32x64x128",   {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  2,  2},
    {"sm90_few_rows_split2_64x64x128",   {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  2,  2},
    {"sm90_few_rows_split4_8x64x128",    {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2},
    {"sm90_few_rows_split4_16x64x128",   {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2},
    {"sm90_few_rows_split4_32x64x128",   {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2},
    {"sm90_few_rows_split4_64x64x128",   {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2},
};
// clang-format on
constexpr int kDenseConfigCount = sizeof(kRows) / sizeof(kRows[0]);

// Shared memory, which begins at a multiple of 1024 bytes: the pipeline's barriers, each consumer's bias, what the
// warps of a persistent kernel store through, then the pipeline.
constexpr int kSmemLimit = 227 * 1024;  // the largest opt-in size on sm_90
constexpr int kBarrierBytes = 1024;
constexpr int kMaxColumns = 256;  // of a tile
constexpr int kBiasBytes = kMaxColumns * 4;

// A warp of a persistent kernel stores its 16 of wgmma's rows in chunks of 64 of wgmma's columns, and one of the
// columns that are left, through buffers that take turns.
constexpr int kStoreRows = 16;
constexpr int kStoreColumns = 64;
constexpr int kStoreBufferBytes = kStoreRows * kStoreColumns * kElementBytes;
constexpr int store_tail(int columns) { return columns % kStoreColumns; }
constexpr int store_chunks(int columns) { return (columns + kStoreColumns - 1) / kStoreColumns; }
constexpr int warp_chunks(const TileConfig& tile) {
  return tile.consumer_rows() / 64 * store_chunks(tile.mma_columns());
}
constexpr int warp_store_bytes(const TileConfig& tile, int buffers) {
  const int chunks = warp_chunks(tile);
  if (chunks > buffers) return buffers * kStoreBufferBytes;
  const int last = store_tail(tile.mma_columns()) > 0 ? store_tail(tile.mma_columns()) : kStoreColumns;
  const int bytes = (chunks - 1) * kStoreBufferBytes + kStoreRows * last * kElementBytes;
  const int least = kStoreBufferBytes;  // for the outputs that TMA cannot write (epilogue/staged_store.cuh)
  return bytes > least ? (bytes + 1023) / 1024 * 1024 : least;
}

constexpr bool persistent(const TileConfig& tile) {
  return tile.family == Family::kCooperative || tile.family == Family::kPingpong || tile.family == Family::kSwapAb;
}
// Whether TMA can write the output as the kernels round it.
inline bool writes_by_tma(const Problem& problem) {
  return problem.out_dtype == problem.a.dtype &&
         tma_can_write(problem.out, problem.batch, problem.m, problem.n, kElementBytes);
}
// Whether the kernels of dense products apply any activation to 16-bit rows, and store them wherever they begin
// (epilogue/activated_store.cuh): beside the sums of the largest tiles there are no registers for it, unless they take
// those of the producer.
constexpr bool has_activated_store(const TileConfig& tile) {
  return persistent(tile) && (tile.takes_registers || tile.consumer_rows() / 64 * tile.mma_columns() / 2 < 120);
}
constexpr int staging_begin(const TileConfig& tile) {
  return kBarrierBytes + (persistent(tile) ? tile.consumers * kBiasBytes : 0);
}
constexpr int pipeline_begin(const TileConfig& tile, int store_buffers) {
  const int staging = persistent(tile) ? tile.consumers * 4 * warp_store_bytes(tile, store_buffers) : 0;
  return (staging_begin(tile) + staging + 1023) / 1024 * 1024;
}

constexpr int operand_bytes(int tile_mn, int block_k, Major major) {
  return TilePanels(major, tile_mn, block_k).bytes();
}

// `major_a` and `major_b` are the operands' as the problem has them.
constexpr int stage_bytes(const TileConfig& tile, Major major_a, Major major_b) {
  return operand_bytes(tile.tile_m, tile.block_k, major_a) + operand_bytes(tile.tile_n, tile.block_k, major_b);
}

constexpr int pipeline_stages(const TileConfig& tile, int store_buffers, Major major_a, Major major_b) {
  const int fit = (kSmemLimit - pipeline_begin(tile, store_buffers)) / stage_bytes(tile, major_a, major_b);
  return fit < tile.max_stages ? fit : tile.max_stages;
}

// Two, or a third one where it costs no stage: then a tile of three chunks waits for none of its own.
constexpr int store_buffers(const TileConfig& tile) {
  const auto is_free = [&](Major major) {
    return pipeline_stages(tile, 3, major, major) == pipeline_stages(tile, 2, major, major);
  };
  return warp_chunks(tile) > 2 && is_free(Major::kK) && is_free(Major::kMn) ? 3 : 2;
}
constexpr int warp_store_bytes(const TileConfig& tile) { return warp_store_bytes(tile, store_buffers(tile)); }
constexpr int pipeline_begin(const TileConfig& tile) { return pipeline_begin(tile, store_buffers(tile)); }
constexpr int pipeline_stages(const TileConfig& tile, Major major_a, Major major_b) {
  return pipeline_stages(tile, store_buffers(tile), major_a, major_b);
}

// A CTA's sums in float32, which take the pipeline's place. The pitch spreads a fragment's writes over the banks: rows
// of the slab are rows of the output, and a thread holds two neighbours along wgmma's columns.
constexpr int slab_pitch(const TileConfig& tile) { return tile.tile_n + (tile.swapped() ? 4 : 8); }
constexpr int slab_bytes(const TileConfig& tile) { return tile.tile_m * slab_pitch(tile) * 4; }

constexpr int shared_bytes(const TileConfig& tile, Major major_a, Major major_b, int stages) {
  const int pipeline = stages * stage_bytes(tile, major_a, major_b);
  const int slab = persistent(tile) ? 0 : slab_bytes(tile);
  return pipeline_begin(tile) + (pipeline > slab ? pipeline : slab);
}

// Sizes that the kernels take fit 32 bits (why_not), in which a division is several times as fast.
constexpr int ceil_divide(int64_t dividend, int divisor) {
  const auto positive = static_cast<uint32_t>(divisor);
  return static_cast<int>((static_cast<uint32_t>(dividend) + positive - 1) / positive);
}

inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {ceil_divide(m, tile.tile_m), ceil_divide(n, tile.tile_n), kGroupM};
}

// Where the last of `tiles` tiles along m or n begins. With a long k it is moved back over the tile before it, to end
// with the operand, up to less than `unit` or a part of a panel: then it loads hardly anything from beyond the end,
// where TMA is slow (TilePanels::loaded). What both tiles have they compute alike and write twice; with a short k that
// takes longer than it saves. `unit` keeps the output's sectors whole along n, and vectors along m.
constexpr int64_t kOverlapPaysFrom = 512;  // of k; at 256 it costs some 2 %, at 128 rather more
constexpr int last_begin(int64_t mn, int tile_mn, int tiles, int64_t k, Major major, int unit) {
  const int aligned = (tiles - 1) * tile_mn;
  if (tiles == 1 || k < kOverlapPaysFrom) return aligned;
  if (major == Major::kMn && tile_mn % kPanel == 0) unit = kPanel;
  const int moved = ceil_divide(mn - tile_mn, unit) * unit;
  return moved < aligned ? moved : aligned;
}

// Why the Hopper kernels cannot run the problem on this GPU; null where every row can.
inline const char* why_not(const Problem& problem, const Gpu& gpu) {
  if (problem.a.dtype != DType::kFloat16 && problem.a.dtype != DType::kBFloat16)
    return "it does not take operands of this dtype";
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  constexpr int64_t limit = int64_t{1} << 31;  // of TMA's coordinates, and of the number of tiles
  constexpr int64_t margin = 1 << 16;          // what whole tiles and blocks of k reach past the end, and more
  if (problem.m >= limit - margin || problem.n >= limit - margin || problem.k >= limit - margin ||
      problem.batch >= limit)
    return "a size is near 2^31 or above it";
  const int64_t tiles = ((problem.m + 7) / 8) * ((problem.n + 31) / 32);  // no row has smaller ones
  if (tiles >= limit / 8 / problem.batch) return "there are too many tiles";
  if (!tma_access(problem.a, problem.batch, problem.m, problem.k, kElementBytes).readable)
    return "it cannot read the strides or the alignment of `a`";
  if (!tma_access(problem.b, problem.batch, problem.n, problem.k, kElementBytes).readable)
    return "it cannot read the strides or the alignment of `b`";
  return nullptr;
}

}  // namespace tileon::sm90
