// The Hopper kernels' tile table, the sizes that follow from a row, and what the kernels take: data and pure functions,
// compiled by any C++ compiler. Which row takes a problem: choice.h.
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
  // What cost_of (cost.h) makes a time of. Nanoseconds: before and after the tiles, for a tile, and for each of
  // its k; per_k_mn is for an mn-major b, of kSwapAb a. Bytes a nanosecond: of memory, and of what L2 hands to an SM.
  // Fitted to benchmarks/results/h200/sweep*.csv by benchmarks/fit_hopper.py.
  float start;
  float per_tile;
  float per_k;
  float per_k_mn;
  float bytes_per_ns;
  float sm_bytes_per_ns = 0;  // only of kRows: the other tables' numbers are for largest_bound_ns
};

// clang-format off
constexpr Row kRows[] = {
    // name                              family              tile m, n, k    consumers, stages, takes registers  splits, ctas_per_sm   start, per_tile, per_k, per_k_mn, bytes_per_ns, sm_bytes_per_ns
    {"sm90_gemm_128x256x64",             {Family::kCooperative,   128, 256,  64,  2, 16},  1,  1,   5031.7f,  1687.8f,  9.0246f,  8.7564f, 4965.4f,  467.5f},
    {"sm90_gemm_128x240x64",             {Family::kCooperative,   128, 240,  64,  2, 16},  1,  1,   5011.9f,  1666.2f,  8.3601f,  8.2661f, 4763.7f,  414.5f},
    {"sm90_gemm_128x224x64",             {Family::kCooperative,   128, 224,  64,  2, 16},  1,  1,   5110.4f,  1576.5f,  7.7574f,  7.6946f, 4616.4f,  396.6f},
    {"sm90_gemm_128x208x64",             {Family::kCooperative,   128, 208,  64,  2, 16},  1,  1,   5109.7f,  1522.6f,  7.2397f,  7.2436f, 4504.2f,  388.3f},
    {"sm90_gemm_128x176x64",             {Family::kCooperative,   128, 176,  64,  2, 16},  1,  1,   5359.1f,  1187.3f,  5.9571f,  6.1009f, 4571.2f,  366.8f},
    {"sm90_gemm_128x160x64",             {Family::kCooperative,   128, 160,  64,  2, 16},  1,  1,   5395.0f,  1057.8f,  5.3643f,  5.5628f, 4457.8f,  328.7f},
    {"sm90_gemm_128x144x64",             {Family::kCooperative,   128, 144,  64,  2, 16},  1,  1,   5353.7f,  1026.7f,  4.8621f,  5.3984f, 4332.5f,  320.3f},
    {"sm90_gemm_128x128x64",             {Family::kCooperative,   128, 128,  64,  2, 16},  1,  1,   5610.1f,   701.0f,  4.1342f,  4.0293f, 4341.0f,  307.8f},
    {"sm90_gemm_128x104x64",             {Family::kCooperative,   128, 104,  64,  2, 16},  1,  1,   5323.2f,   904.5f,  3.5527f,  4.5359f, 4227.4f,  311.5f},
    {"sm90_gemm_128x96x64",              {Family::kCooperative,   128,  96,  64,  2, 16},  1,  1,   5500.0f,   660.9f,  3.1269f,  3.6370f, 4318.6f,  287.0f},
    {"sm90_gemm_64x176x64",              {Family::kCooperative,    64, 176,  64,  1, 16},  1,  1,   5556.4f,   659.3f,  2.8630f,  3.6988f, 3886.2f,  303.2f},
    {"sm90_gemm_64x128x128",             {Family::kCooperative,    64, 128, 128,  1, 16},  1,  1,   5493.8f,   662.1f,  2.2412f,  2.1500f, 3816.4f,  265.8f},
    {"sm90_gemm_64x104x128",             {Family::kCooperative,    64, 104, 128,  1, 16},  1,  1,   5362.9f,   608.4f,  2.3494f,  2.9982f, 3829.0f,  281.5f},
    {"sm90_gemm_64x96x128",              {Family::kCooperative,    64,  96, 128,  1, 16},  1,  1,   5370.9f,   638.9f,  1.8093f,  2.3763f, 3868.4f,  272.8f},
    {"sm90_gemm_64x64x128",              {Family::kCooperative,    64,  64, 128,  1, 16},  1,  1,   5447.2f,   432.3f,  1.4466f,  1.3860f, 3978.2f,  275.2f},
    {"sm90_gemm_64x32x128",              {Family::kCooperative,    64,  32, 128,  1, 16},  1,  1,   5492.9f,   347.6f,  1.0388f,  1.4061f, 4251.7f,  253.8f},
    {"sm90_pingpong_128x128x64",         {Family::kPingpong,      128, 128,  64,  2, 16},  1,  1,   5750.2f,   633.3f,  4.1275f,  4.0193f, 4273.0f,  308.6f},
    {"sm90_pingpong_128x160x64",         {Family::kPingpong,      128, 160,  64,  2, 16, true},  1,  1,   5704.1f,   894.7f,  5.3205f,  5.6078f, 4370.8f,  347.3f},
    {"sm90_pingpong_128x176x64",         {Family::kPingpong,      128, 176,  64,  2, 16, true},  1,  1,   5678.0f,  1011.5f,  5.8788f,  6.1514f, 4483.8f,  386.8f},
    {"sm90_pingpong_128x192x64",         {Family::kPingpong,      128, 192,  64,  2, 16, true},  1,  1,   5770.6f,   913.1f,  6.7533f,  6.5014f, 4393.0f,  454.6f},
    {"sm90_swapped_208x128x64",           {Family::kSwapAb,        208, 128,  64,  2, 16},  1,  1,   4329.9f,  2831.0f,  7.0731f,  7.3437f, 4888.1f,  348.8f},
    {"sm90_swapped_176x128x64",           {Family::kSwapAb,        176, 128,  64,  2, 16},  1,  1,   4713.7f,  2285.2f,  5.7374f,  5.9331f, 4775.0f,  308.3f},
    {"sm90_swapped_160x128x64",           {Family::kSwapAb,        160, 128,  64,  2, 16},  1,  1,   4811.7f,  2082.0f,  5.1609f,  5.4928f, 4506.5f,  294.8f},
    {"sm90_swapped_144x128x64",           {Family::kSwapAb,        144, 128,  64,  2, 16},  1,  1,   4930.8f,  1824.2f,  4.6328f,  5.1942f, 4272.8f,  285.8f},
    {"sm90_swapped_104x128x64",           {Family::kSwapAb,        104, 128,  64,  2, 16},  1,  1,   5284.9f,  1211.3f,  3.1981f,  4.0442f, 3974.0f,  269.8f},
    {"sm90_swapped_96x128x64",            {Family::kSwapAb,         96, 128,  64,  2, 16},  1,  1,   5310.3f,  1177.6f,  2.7899f,  3.2904f, 3966.0f,  263.6f},
    {"sm90_swapped_96x64x128",            {Family::kSwapAb,         96,  64, 128,  1, 16},  1,  1,   5351.7f,   771.2f,  1.8936f,  2.4109f, 4090.0f,  262.5f},
    {"sm90_swapped_104x64x128",           {Family::kSwapAb,        104,  64, 128,  1, 16},  1,  1,   5327.1f,   775.7f,  2.3682f,  2.8547f, 4078.8f,  254.4f},
    {"sm90_split2_64x64x128",            {Family::kClusterSplitK,  64,  64, 128,  1, 16},  2,  1,   6568.4f,  2302.3f,  0.7551f,  0.7905f, 3743.6f,  188.8f},
    {"sm90_split4_64x64x128",            {Family::kClusterSplitK,  64,  64, 128,  1, 16},  4,  1,   6511.5f,  1316.3f,  0.5056f,  0.5428f, 3681.1f,  181.6f},
    {"sm90_split8_64x64x128",            {Family::kClusterSplitK,  64,  64, 128,  1, 16},  8,  1,   6457.1f,  1271.1f,  0.2874f,  0.3031f, 3331.3f,  129.9f},
    {"sm90_split2_128x128x64",           {Family::kClusterSplitK, 128, 128,  64,  2, 16},  2,  1,   6376.3f,  5872.3f,  1.9703f,  2.0198f, 4068.5f,  193.4f},
    {"sm90_split4_128x128x64",           {Family::kClusterSplitK, 128, 128,  64,  2, 16},  4,  1,   5236.2f,  4578.8f,  1.0233f,  1.0355f, 3995.7f,  159.2f},
    {"sm90_split8_128x128x64",           {Family::kClusterSplitK, 128, 128,  64,  2, 16},  8,  1,   5362.9f,  4413.5f,  0.5987f,  0.6285f, 4038.0f,  116.9f},
    {"sm90_few_rows_8x64x128",           {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  1,  2,   6114.6f,   222.4f,  1.3495f,  1.2835f, 3961.9f,  232.3f},
    {"sm90_few_rows_16x64x128",          {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  1,  2,   6383.3f,   272.8f,  1.4207f,  1.3803f, 3956.0f,  248.7f},
    {"sm90_few_rows_32x64x128",          {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  1,  2,   6862.8f,   309.4f,  1.8811f,  1.9484f, 4016.4f,  224.6f},
    {"sm90_few_rows_64x64x128",          {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  1,  2,   7649.4f,   442.1f,  2.8089f,  2.7698f, 4169.7f,  227.6f},
    {"sm90_few_rows_8x128x64",           {Family::kSwapAbSplitK,    8, 128,  64,  2,  5},  1,  2,   6088.6f,   268.1f,  2.6291f,  2.5064f, 3924.6f,  246.6f},
    {"sm90_few_rows_16x128x64",          {Family::kSwapAbSplitK,   16, 128,  64,  2,  5},  1,  2,   6241.0f,   407.5f,  2.7732f,  2.8654f, 3930.8f,  266.0f},
    {"sm90_few_rows_32x128x64",          {Family::kSwapAbSplitK,   32, 128,  64,  2,  5},  1,  2,   6522.3f,   632.1f,  2.8978f,  3.0063f, 3928.6f,  248.5f},
    {"sm90_few_rows_64x128x64",          {Family::kSwapAbSplitK,   64, 128,  64,  2,  4},  1,  2,   7520.6f,   991.1f,  3.4295f,  3.1210f, 3831.4f,  233.9f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  2,  2,   6848.8f,   226.8f,  0.7987f,  0.7801f, 3891.1f,  193.5f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  2,  2,   6783.8f,   362.8f,  0.8542f,  0.8558f, 3936.6f,  211.4f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  2,  2,   7163.6f,   546.9f,  1.1175f,  1.1119f, 4128.9f,  188.6f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  2,  2,   7814.0f,   805.8f,  1.6477f,  1.6289f, 4639.1f,  183.9f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kSwapAbSplitK,    8,  64, 128,  1,  5},  4,  2,   6609.4f,   348.3f,  0.4556f,  0.4588f, 3845.6f,  162.7f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kSwapAbSplitK,   16,  64, 128,  1,  5},  4,  2,   6590.5f,   492.2f,  0.4761f,  0.4932f, 3875.4f,  174.7f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kSwapAbSplitK,   32,  64, 128,  1,  4},  4,  2,   6476.8f,   796.2f,  0.6117f,  0.6307f, 4076.1f,  164.2f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kSwapAbSplitK,   64,  64, 128,  1,  3},  4,  2,   6662.5f,  1205.5f,  0.8708f,  0.8637f, 4659.6f,  149.1f},
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
inline bool writes_by_tma(const GemmProblem& problem) {
  return problem.out_dtype == problem.dtype &&
         tma_can_write(problem.out, problem.batch, problem.m, problem.n, kElementBytes);
}
// Whether the kernels of dense products apply any activation to 16-bit rows, and store them wherever they begin
// (gemm/activated_store.cuh): beside the sums of the largest tiles there are no registers for it, unless they take
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
inline const char* why_not(const GemmProblem& problem, const Gpu& gpu) {
  if (problem.dtype != DType::kFloat16 && problem.dtype != DType::kBFloat16)
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
