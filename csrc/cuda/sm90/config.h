// The Hopper kernels' tile table, the sizes that follow from a row, and what the kernels take: data and pure functions,
// compiled by any C++ compiler. Which row takes a problem: choice.h.
#pragma once

#include <cstdint>

#include "../../problem.h"
#include "../gpu.h"
#include "../tile/tile_order.h"
#include "operand_tile.h"
#include "tma_access.h"

namespace tileon::sm90 {

enum class Family : int8_t {
  kGemm,      // persistent; the warpgroups share each tile by its rows
  kPingPong,  // persistent; two warpgroups take whole tiles in turn, one stores while the other multiplies
  kSplitK,    // one tile a cluster: its CTAs split k and add their sums through each other's shared memory
  kFewRows,   // the same, swapped, so that a few rows of a waste nothing
  kSwapped,   // as kGemm, swapped: an mn-major b is then read in whole panels whatever the tile's height
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
  constexpr bool swapped() const { return family == Family::kFewRows || family == Family::kSwapped; }
  constexpr int mma_rows() const { return swapped() ? tile_n : tile_m; }
  constexpr int mma_columns() const { return swapped() ? tile_m : tile_n; }
  constexpr int consumer_rows() const { return family == Family::kPingPong ? mma_rows() : mma_rows() / consumers; }
  // Three consumers always need more registers than an even share. The producer has a warpgroup then, three of whose
  // warps are there only to give theirs away.
  constexpr bool moves_registers() const { return consumers == 3 || takes_registers; }
  constexpr int threads() const { return consumers * 128 + (moves_registers() ? 128 : 32); }  // and the producer's
};

constexpr int kGroupM = 8;  // rows of tiles in a group (tile_order.h); 2 to 16 lie within 1 %

struct Row {
  const char* name;
  TileConfig tile;
  int splits;    // CTAs of a cluster that share a tile's k
  int resident;  // CTAs that an SM holds at a time
  // What expected_ns (choice.h) makes a time of. Nanoseconds: before and after the tiles, for a tile, and for each of
  // its k; per_k_mn is for an mn-major b, of kSwapped a. Bytes a nanosecond: of memory, and of what L2 hands to an SM.
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
    // name                              family              tile m, n, k    consumers, stages, takes registers  splits, resident   start, per_tile, per_k, per_k_mn, bytes_per_ns, sm_bytes_per_ns
    {"sm90_gemm_128x256x64",             {Family::kGemm,     128, 256,  64,  2, 16},  1,  1,   5406.2f,  2115.3f,  9.4176f,  9.6805f, 5413.7f,  411.1f},
    {"sm90_gemm_128x240x64",             {Family::kGemm,     128, 240,  64,  2, 16},  1,  1,   5187.5f,  1908.8f,  9.2321f,  9.5088f, 5323.8f,  403.6f},
    {"sm90_gemm_128x224x64",             {Family::kGemm,     128, 224,  64,  2, 16},  1,  1,   5311.7f,  1850.9f,  8.4394f,  8.6854f, 5478.8f,  363.6f},
    {"sm90_gemm_128x208x64",             {Family::kGemm,     128, 208,  64,  2, 16},  1,  1,   5377.6f,  1538.9f,  7.9525f,  8.5713f, 5132.9f,  372.9f},
    {"sm90_gemm_128x176x64",             {Family::kGemm,     128, 176,  64,  2, 16},  1,  1,   5154.2f,  1541.4f,  6.7810f,  7.0497f, 5527.2f,  338.7f},
    {"sm90_gemm_128x160x64",             {Family::kGemm,     128, 160,  64,  2, 16},  1,  1,   5208.3f,  1377.4f,  6.1191f,  6.7093f, 5787.7f,  322.0f},
    {"sm90_gemm_128x144x64",             {Family::kGemm,     128, 144,  64,  2, 16},  1,  1,   5029.4f,  1315.9f,  5.3678f,  6.9093f, 5422.5f,  318.3f},
    {"sm90_gemm_128x128x64",             {Family::kGemm,     128, 128,  64,  2, 16},  1,  1,   4966.5f,  1144.4f,  4.8207f,  5.0928f, 5115.9f,  324.0f},
    {"sm90_gemm_128x104x64",             {Family::kGemm,     128, 104,  64,  2, 16},  1,  1,   5335.4f,  1044.0f,  4.1206f,  5.4320f, 4663.2f,  261.4f},
    {"sm90_gemm_128x96x64",              {Family::kGemm,     128,  96,  64,  2, 16},  1,  1,   4713.6f,  1036.3f,  3.8771f,  4.1017f, 5229.6f,  250.8f},
    {"sm90_gemm_64x176x64",              {Family::kGemm,      64, 176,  64,  1, 16},  1,  1,   5184.7f,   967.5f,  3.4984f,  4.4764f, 4155.0f,  264.7f},
    {"sm90_gemm_64x128x128",             {Family::kGemm,      64, 128, 128,  1, 16},  1,  1,   5106.1f,   892.0f,  2.8374f,  2.9063f, 4606.7f,  290.4f},
    {"sm90_gemm_64x104x128",             {Family::kGemm,      64, 104, 128,  1, 16},  1,  1,   5143.3f,   831.4f,  2.9242f,  4.1478f, 4949.6f,  253.6f},
    {"sm90_gemm_64x96x128",              {Family::kGemm,      64,  96, 128,  1, 16},  1,  1,   4747.7f,   898.0f,  2.5639f,  4.0660f, 5053.2f,  306.2f},
    {"sm90_gemm_64x64x128",              {Family::kGemm,      64,  64, 128,  1, 16},  1,  1,   4741.0f,   585.1f,  1.9426f,  2.0146f, 4957.0f,  263.3f},
    {"sm90_gemm_64x32x128",              {Family::kGemm,      64,  32, 128,  1, 16},  1,  1,   4582.8f,   698.7f,  1.3880f,  3.0515f, 5573.5f,  201.4f},
    {"sm90_pingpong_128x128x64",         {Family::kPingPong, 128, 128,  64,  2, 16},  1,  1,   5818.6f,   541.4f,  4.5867f,  4.7124f, 4324.9f,  278.7f},
    {"sm90_pingpong_128x160x64",         {Family::kPingPong, 128, 160,  64,  2, 16, true},  1,  1,   5960.7f,   702.9f,  5.6126f,  6.5988f, 4378.2f,  292.2f},
    {"sm90_pingpong_128x176x64",         {Family::kPingPong, 128, 176,  64,  2, 16, true},  1,  1,   6113.5f,   808.4f,  6.2633f,  7.1569f, 4469.5f,  337.3f},
    {"sm90_pingpong_128x192x64",         {Family::kPingPong, 128, 192,  64,  2, 16, true},  1,  1,   6166.7f,   625.6f,  7.1476f,  7.2956f, 4934.4f,  403.0f},
    {"sm90_swapped_208x128x64",           {Family::kSwapped,  208, 128,  64,  2, 16},  1,  1,   4967.7f,  2567.8f,  7.8110f,  8.9245f, 4860.9f,  347.4f},
    {"sm90_swapped_176x128x64",           {Family::kSwapped,  176, 128,  64,  2, 16},  1,  1,   5055.7f,  2240.1f,  6.4477f,  7.6014f, 4635.9f,  314.1f},
    {"sm90_swapped_160x128x64",           {Family::kSwapped,  160, 128,  64,  2, 16},  1,  1,   5068.3f,  2092.9f,  5.9050f,  7.0226f, 4294.7f,  302.9f},
    {"sm90_swapped_144x128x64",           {Family::kSwapped,  144, 128,  64,  2, 16},  1,  1,   4954.4f,  1938.3f,  5.2748f,  6.8853f, 4082.3f,  321.5f},
    {"sm90_swapped_104x128x64",           {Family::kSwapped,  104, 128,  64,  2, 16},  1,  1,   5053.7f,  1490.4f,  3.8582f,  5.5116f, 4225.4f,  264.8f},
    {"sm90_swapped_96x128x64",            {Family::kSwapped,   96, 128,  64,  2, 16},  1,  1,   4979.5f,  1447.7f,  3.3747f,  5.0689f, 4545.6f,  301.1f},
    {"sm90_swapped_96x64x128",            {Family::kSwapped,   96,  64, 128,  1, 16},  1,  1,   4927.3f,  1157.2f,  2.2049f,  3.5710f, 4460.3f,  229.4f},
    {"sm90_swapped_104x64x128",           {Family::kSwapped,  104,  64, 128,  1, 16},  1,  1,   4815.3f,  1214.9f,  2.7258f,  3.8461f, 4277.6f,  240.2f},
    {"sm90_split2_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  2,  1,   7757.1f,  1031.8f,  1.3034f,  1.5512f, 4077.3f,  139.5f},
    {"sm90_split4_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  4,  1,   6767.8f,  1301.6f,  0.5411f,  0.6973f, 4004.6f,  135.2f},
    {"sm90_split8_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  8,  1,   6903.5f,  1334.1f,  0.3089f,  0.3891f, 3437.6f,  116.3f},
    {"sm90_split2_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  2,  1,   8931.2f,  1595.6f,  3.1278f,  3.3521f, 5128.7f,  193.2f},
    {"sm90_split4_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  4,  1,   7758.3f,  1931.4f,  1.2418f,  1.3818f, 4339.3f,  136.3f},
    {"sm90_split8_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  8,  1,   9406.8f,  2070.3f,  0.7226f,  0.7813f, 3718.2f,  148.8f},
    {"sm90_few_rows_8x64x128",           {Family::kFewRows,    8,  64, 128,  1,  5},  1,  2,   5890.0f,   471.3f,  1.6728f,  1.9392f, 4153.8f,  186.8f},
    {"sm90_few_rows_16x64x128",          {Family::kFewRows,   16,  64, 128,  1,  5},  1,  2,   6107.0f,   529.5f,  1.8248f,  2.2349f, 4217.8f,  183.2f},
    {"sm90_few_rows_32x64x128",          {Family::kFewRows,   32,  64, 128,  1,  4},  1,  2,   6594.1f,   609.4f,  2.1581f,  2.6272f, 4248.3f,  165.6f},
    {"sm90_few_rows_64x64x128",          {Family::kFewRows,   64,  64, 128,  1,  3},  1,  2,   7423.0f,   736.5f,  2.6436f,  2.7790f, 4069.4f,  161.1f},
    {"sm90_few_rows_8x128x64",           {Family::kFewRows,    8, 128,  64,  2,  5},  1,  2,   6168.2f,   467.8f,  2.3496f,  2.0454f, 4474.5f,  162.2f},
    {"sm90_few_rows_16x128x64",          {Family::kFewRows,   16, 128,  64,  2,  5},  1,  2,   6337.7f,   545.5f,  2.6369f,  2.4288f, 4323.0f,  167.3f},
    {"sm90_few_rows_32x128x64",          {Family::kFewRows,   32, 128,  64,  2,  5},  1,  2,   6631.1f,   674.5f,  2.8944f,  2.9662f, 3983.2f,  168.1f},
    {"sm90_few_rows_64x128x64",          {Family::kFewRows,   64, 128,  64,  2,  4},  1,  2,   7774.5f,   887.8f,  3.5336f,  3.4706f, 3982.1f,  176.3f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  2,  2,   6607.3f,   432.3f,  1.1053f,  1.1560f, 4257.4f,  151.3f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  2,  2,   6591.9f,   491.1f,  1.2207f,  1.3220f, 4361.8f,  149.7f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  2,  2,   7159.2f,   566.2f,  1.3911f,  1.5209f, 4468.1f,  139.0f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  2,  2,   8094.4f,   676.1f,  1.5339f,  1.6843f, 4353.6f,  129.6f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  4,  2,   6236.9f,   399.1f,  0.7331f,  0.6915f, 4523.8f,  121.6f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  4,  2,   6046.1f,   455.9f,  0.7627f,  0.7765f, 4451.4f,  114.9f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  4,  2,   6794.2f,   511.7f,  0.8686f,  0.8885f, 4757.0f,  114.3f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  4,  2,   7707.2f,   619.7f,  0.9901f,  0.9381f, 4357.2f,  101.8f},
};
// clang-format on
constexpr int kRowCount = sizeof(kRows) / sizeof(kRows[0]);

// Shared memory, which begins at a multiple of 1024 bytes: the ring's barriers, each consumer's bias, what the warps of
// a persistent kernel store through, then the ring.
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
  const int least = kStoreBufferBytes;  // for the outputs that TMA cannot write (gemm/slab_store.cuh)
  return bytes > least ? (bytes + 1023) / 1024 * 1024 : least;
}

constexpr bool persistent(const TileConfig& tile) {
  return tile.family == Family::kGemm || tile.family == Family::kPingPong || tile.family == Family::kSwapped;
}
// Whether the kernels of dense products apply any activation to what TMA stores (gemm/activated_store.cuh): beside the
// sums of the largest tiles there are no registers for it, unless they take those of the producer.
constexpr bool activates_by_tma(const TileConfig& tile) {
  return persistent(tile) && (tile.takes_registers || tile.consumer_rows() / 64 * tile.mma_columns() / 2 < 120);
}
constexpr int staging_begin(const TileConfig& tile) {
  return kBarrierBytes + (persistent(tile) ? tile.consumers * kBiasBytes : 0);
}
constexpr int ring_begin(const TileConfig& tile, int store_buffers) {
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

constexpr int ring_stages(const TileConfig& tile, int store_buffers, Major major_a, Major major_b) {
  const int fit = (kSmemLimit - ring_begin(tile, store_buffers)) / stage_bytes(tile, major_a, major_b);
  return fit < tile.max_stages ? fit : tile.max_stages;
}

// Two, or a third one where it costs no stage: then a tile of three chunks waits for none of its own.
constexpr int store_buffers(const TileConfig& tile) {
  const auto is_free = [&](Major major) {
    return ring_stages(tile, 3, major, major) == ring_stages(tile, 2, major, major);
  };
  return warp_chunks(tile) > 2 && is_free(Major::kK) && is_free(Major::kMn) ? 3 : 2;
}
constexpr int warp_store_bytes(const TileConfig& tile) { return warp_store_bytes(tile, store_buffers(tile)); }
constexpr int ring_begin(const TileConfig& tile) { return ring_begin(tile, store_buffers(tile)); }
constexpr int ring_stages(const TileConfig& tile, Major major_a, Major major_b) {
  return ring_stages(tile, store_buffers(tile), major_a, major_b);
}

// A CTA's sums in float32, which take the ring's place. The pitch spreads a fragment's writes over the banks: rows of
// the slab are rows of the output, and a thread holds two neighbours along wgmma's columns.
constexpr int slab_pitch(const TileConfig& tile) { return tile.tile_n + (tile.swapped() ? 4 : 8); }
constexpr int slab_bytes(const TileConfig& tile) { return tile.tile_m * slab_pitch(tile) * 4; }

constexpr int shared_bytes(const TileConfig& tile, Major major_a, Major major_b, int stages) {
  const int ring = stages * stage_bytes(tile, major_a, major_b);
  const int slab = persistent(tile) ? 0 : slab_bytes(tile);
  return ring_begin(tile) + (ring > slab ? ring : slab);
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

// Products (batch * m * n * k) from which operands that TMA cannot read are copied into aligned buffers; smaller
// problems go to the portable kernels (benchmarks/results/h200/awkward.csv).
constexpr double kCopyPaysFrom = 320.0 * 320.0 * 320.0;

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
