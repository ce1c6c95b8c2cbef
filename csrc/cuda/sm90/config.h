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
  // Fitted to benchmarks/results/h200/sweep.csv and sweep_random.csv by benchmarks/fit_hopper.py.
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
    {"sm90_gemm_128x256x64",             {Family::kGemm,     128, 256,  64,  2, 16},  1,  1,   5593.0f,  1766.8f,  9.6578f, 10.0149f, 5667.0f,  597.1f},
    {"sm90_gemm_128x240x64",             {Family::kGemm,     128, 240,  64,  2, 16},  1,  1,   5367.8f,  1572.0f,  9.5300f,  9.8237f, 5523.9f,  559.8f},
    {"sm90_gemm_128x224x64",             {Family::kGemm,     128, 224,  64,  2, 16},  1,  1,   5524.8f,  1516.1f,  8.6929f,  9.0455f, 5599.6f,  508.8f},
    {"sm90_gemm_128x208x64",             {Family::kGemm,     128, 208,  64,  2, 16},  1,  1,   5489.6f,  1211.9f,  8.1273f,  8.9176f, 5287.7f,  493.6f},
    {"sm90_gemm_128x176x64",             {Family::kGemm,     128, 176,  64,  2, 16},  1,  1,   5243.0f,  1263.3f,  6.9391f,  7.4406f, 5390.8f,  415.2f},
    {"sm90_gemm_128x160x64",             {Family::kGemm,     128, 160,  64,  2, 16},  1,  1,   5184.4f,  1162.3f,  6.2891f,  7.0159f, 5484.5f,  407.3f},
    {"sm90_gemm_128x144x64",             {Family::kGemm,     128, 144,  64,  2, 16},  1,  1,   5006.2f,  1094.6f,  5.5624f,  7.1939f, 5344.9f,  364.3f},
    {"sm90_gemm_128x128x64",             {Family::kGemm,     128, 128,  64,  2, 16},  1,  1,   4967.2f,   960.2f,  5.0532f,  5.3414f, 5372.8f,  375.7f},
    {"sm90_gemm_128x104x64",             {Family::kGemm,     128, 104,  64,  2, 16},  1,  1,   5358.5f,   886.5f,  4.3216f,  5.6528f, 4774.2f,  288.9f},
    {"sm90_gemm_128x96x64",              {Family::kGemm,     128,  96,  64,  2, 16},  1,  1,   4582.6f,   982.4f,  4.2960f,  4.3071f, 5538.3f,  299.8f},
    {"sm90_gemm_64x176x64",              {Family::kGemm,      64, 176,  64,  1, 16},  1,  1,   5277.5f,   807.2f,  3.6394f,  4.5824f, 4215.0f,  276.3f},
    {"sm90_gemm_64x128x128",             {Family::kGemm,      64, 128, 128,  1, 16},  1,  1,   5157.6f,   716.9f,  2.8205f,  2.9829f, 4568.9f,  270.0f},
    {"sm90_gemm_64x104x128",             {Family::kGemm,      64, 104, 128,  1, 16},  1,  1,   5176.8f,   676.1f,  2.8577f,  3.9046f, 4764.9f,  232.9f},
    {"sm90_gemm_64x96x128",              {Family::kGemm,      64,  96, 128,  1, 16},  1,  1,   4724.1f,   716.9f,  2.5883f,  3.9994f, 5057.8f,  270.0f},
    {"sm90_gemm_64x64x128",              {Family::kGemm,      64,  64, 128,  1, 16},  1,  1,   4598.6f,   517.9f,  2.0037f,  2.0093f, 5228.0f,  195.0f},
    {"sm90_gemm_64x32x128",              {Family::kGemm,      64,  32, 128,  1, 16},  1,  1,   4550.3f,   545.7f,  1.3798f,  2.5638f, 5072.1f,  193.1f},
    {"sm90_pingpong_128x128x64",         {Family::kPingPong, 128, 128,  64,  2, 16},  1,  1,   6013.5f,   315.7f,  4.9180f,  4.8752f, 4434.5f,  280.0f},
    {"sm90_pingpong_128x160x64",         {Family::kPingPong, 128, 160,  64,  2, 16, true},  1,  1,   6213.0f,   392.8f,  5.8271f,  6.8641f, 4302.7f,  338.8f},
    {"sm90_pingpong_128x176x64",         {Family::kPingPong, 128, 176,  64,  2, 16, true},  1,  1,   6293.0f,   404.5f,  6.4611f,  7.8112f, 4810.5f,  372.4f},
    {"sm90_pingpong_128x192x64",         {Family::kPingPong, 128, 192,  64,  2, 16, true},  1,  1,   6054.8f,   423.2f,  7.3995f,  7.4277f, 4945.2f,  430.0f},
    {"sm90_swapped_208x128x64",           {Family::kSwapped,  208, 128,  64,  2, 16},  1,  1,   5476.8f,  1835.2f,  8.2078f,  9.5899f, 5428.4f,  483.9f},
    {"sm90_swapped_176x128x64",           {Family::kSwapped,  176, 128,  64,  2, 16},  1,  1,   5516.5f,  1620.0f,  6.8039f,  8.2195f, 5463.6f,  411.7f},
    {"sm90_swapped_160x128x64",           {Family::kSwapped,  160, 128,  64,  2, 16},  1,  1,   5532.5f,  1497.0f,  6.2349f,  7.6068f, 5070.6f,  383.9f},
    {"sm90_swapped_144x128x64",           {Family::kSwapped,  144, 128,  64,  2, 16},  1,  1,   5280.0f,  1392.5f,  5.5912f,  7.4586f, 4987.4f,  381.6f},
    {"sm90_swapped_104x128x64",           {Family::kSwapped,  104, 128,  64,  2, 16},  1,  1,   5225.5f,  1126.3f,  4.1720f,  5.8817f, 4399.6f,  301.5f},
    {"sm90_swapped_96x128x64",            {Family::kSwapped,   96, 128,  64,  2, 16},  1,  1,   5062.8f,  1118.6f,  3.6274f,  5.4906f, 4516.9f,  318.0f},
    {"sm90_swapped_96x64x128",            {Family::kSwapped,   96,  64, 128,  1, 16},  1,  1,   5026.3f,   862.5f,  2.4083f,  3.8146f, 4468.2f,  258.7f},
    {"sm90_swapped_104x64x128",           {Family::kSwapped,  104,  64, 128,  1, 16},  1,  1,   5105.7f,   872.9f,  2.8151f,  3.8311f, 4368.9f,  227.2f},
    {"sm90_split2_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  2,  1,   7615.6f,   955.5f,  1.2357f,  1.6303f, 3928.6f,  127.2f},
    {"sm90_split4_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  4,  1,   6880.0f,  1203.0f,  0.5202f,  0.7303f, 3962.5f,  128.1f},
    {"sm90_split8_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  8,  1,   7039.1f,  1298.8f,  0.2984f,  0.4013f, 3388.7f,  112.1f},
    {"sm90_split2_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  2,  1,   9094.6f,  1527.3f,  3.1970f,  3.7550f, 5284.7f,  211.4f},
    {"sm90_split4_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  4,  1,   7847.2f,  1830.4f,  1.3394f,  1.5580f, 4017.3f,  177.4f},
    {"sm90_split8_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  8,  1,   9437.0f,  2100.7f,  0.7650f,  0.8612f, 3610.8f,  173.4f},
    {"sm90_few_rows_8x64x128",           {Family::kFewRows,    8,  64, 128,  1,  5},  1,  2,   5829.3f,   382.6f,  1.6633f,  1.9091f, 4161.3f,  175.4f},
    {"sm90_few_rows_16x64x128",          {Family::kFewRows,   16,  64, 128,  1,  5},  1,  2,   6004.9f,   448.7f,  1.8395f,  2.2153f, 4229.9f,  163.9f},
    {"sm90_few_rows_32x64x128",          {Family::kFewRows,   32,  64, 128,  1,  4},  1,  2,   6550.9f,   537.3f,  2.1676f,  2.6168f, 4226.8f,  146.5f},
    {"sm90_few_rows_64x64x128",          {Family::kFewRows,   64,  64, 128,  1,  3},  1,  2,   7359.5f,   672.1f,  2.5487f,  2.7932f, 4058.0f,  144.9f},
    {"sm90_few_rows_8x128x64",           {Family::kFewRows,    8, 128,  64,  2,  5},  1,  2,   6063.1f,   404.0f,  2.1761f,  1.9290f, 3736.1f,  168.2f},
    {"sm90_few_rows_16x128x64",          {Family::kFewRows,   16, 128,  64,  2,  5},  1,  2,   6335.6f,   483.5f,  2.6495f,  2.3660f, 4511.0f,  161.4f},
    {"sm90_few_rows_32x128x64",          {Family::kFewRows,   32, 128,  64,  2,  5},  1,  2,   6603.4f,   604.4f,  2.8652f,  2.9869f, 3957.5f,  160.7f},
    {"sm90_few_rows_64x128x64",          {Family::kFewRows,   64, 128,  64,  2,  4},  1,  2,   7729.5f,   825.1f,  3.5314f,  3.5360f, 3979.6f,  172.1f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  2,  2,   6499.7f,   352.1f,  1.1080f,  1.1764f, 4190.6f,  144.2f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  2,  2,   6477.7f,   412.3f,  1.2354f,  1.3455f, 4348.1f,  138.4f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  2,  2,   7046.3f,   497.0f,  1.3826f,  1.5864f, 4458.1f,  127.3f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  2,  2,   8036.9f,   617.3f,  1.5363f,  1.7563f, 4335.3f,  118.3f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  4,  2,   6181.0f,   325.8f,  0.7232f,  0.7236f, 4511.0f,  119.2f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  4,  2,   6175.9f,   378.7f,  0.7536f,  0.8440f, 4519.8f,  115.8f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  4,  2,   6490.3f,   450.3f,  0.9140f,  0.9350f, 4822.1f,  111.3f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  4,  2,   7766.6f,   565.8f,  0.9771f,  1.0114f, 4466.1f,  100.1f},
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
