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
  // Nanoseconds: start + the largest of waves * (per_tile + per_k * k), bytes / bytes_per_ns and what L2 takes;
  // per_k_mn is for an mn-major b, of kSwapped a (choice.h). Fitted on an H200 to benchmarks/results/h200/sweep.csv by
  // benchmarks/fit_hopper.py, which also says what the choice loses.
  float start;
  float per_tile;
  float per_k;
  float per_k_mn;
  float bytes_per_ns;
};

// clang-format off
constexpr Row kRows[] = {
    // name                              family              tile m, n, k    consumers, stages  splits, resident   start, per_tile, per_k, per_k_mn, bytes_per_ns
    {"sm90_gemm_128x256x64",             {Family::kGemm,     128, 256,  64,  2, 16},  1,  1,   7535.0f,   184.0f, 10.5588f, 10.7844f, 3322.7f},
    {"sm90_gemm_128x240x64",             {Family::kGemm,     128, 240,  64,  2, 16},  1,  1,   4046.8f,  1836.9f, 10.1501f, 10.1302f, 3267.7f},
    {"sm90_gemm_128x224x64",             {Family::kGemm,     128, 224,  64,  2, 16},  1,  1,   3665.2f,  2173.1f,  9.0994f,  9.4042f, 4181.7f},
    {"sm90_gemm_128x208x64",             {Family::kGemm,     128, 208,  64,  2, 16},  1,  1,   4061.2f,  1480.9f,  8.6248f, 10.1163f, 4300.0f},
    {"sm90_gemm_128x176x64",             {Family::kGemm,     128, 176,  64,  2, 16},  1,  1,   4633.2f,   875.5f,  7.5994f,  7.8936f, 2151.9f},
    {"sm90_gemm_128x160x64",             {Family::kGemm,     128, 160,  64,  2, 16},  1,  1,   5082.6f,   247.2f,  7.1406f,  7.3728f, 2967.2f},
    {"sm90_gemm_128x144x64",             {Family::kGemm,     128, 144,  64,  2, 16},  1,  1,   4846.1f,   628.5f,  6.1963f,  7.6953f, 2321.5f},
    {"sm90_gemm_128x128x64",             {Family::kGemm,     128, 128,  64,  2, 16},  1,  1,   4520.6f,   739.1f,  5.7866f,  5.8939f, 3610.4f},
    {"sm90_gemm_128x104x64",             {Family::kGemm,     128, 104,  64,  2, 16},  1,  1,   6380.8f,    13.8f,  5.0100f,  5.5916f, 2223.5f},
    {"sm90_gemm_128x96x64",              {Family::kGemm,     128,  96,  64,  2, 16},  1,  1,   4667.6f,   473.4f,  4.3731f,  5.0167f, 2500.2f},
    {"sm90_gemm_64x176x64",              {Family::kGemm,      64, 176,  64,  1, 16},  1,  1,   5227.2f,   568.7f,  4.1236f,  4.9063f, 3282.7f},
    {"sm90_gemm_64x128x128",             {Family::kGemm,      64, 128, 128,  1, 16},  1,  1,   5764.2f,     0.0f,  3.2410f,  3.2823f, 2682.6f},
    {"sm90_gemm_64x104x128",             {Family::kGemm,      64, 104, 128,  1, 16},  1,  1,   5583.0f,    26.4f,  3.0847f,  4.7079f, 2399.7f},
    {"sm90_gemm_64x96x128",              {Family::kGemm,      64,  96, 128,  1, 16},  1,  1,   5352.1f,    37.2f,  2.7499f,  3.7847f, 2565.2f},
    {"sm90_gemm_64x64x128",              {Family::kGemm,      64,  64, 128,  1, 16},  1,  1,   4898.9f,   221.2f,  2.1003f,  2.1600f, 2802.7f},
    {"sm90_gemm_64x32x128",              {Family::kGemm,      64,  32, 128,  1, 16},  1,  1,   5545.3f,     0.0f,  1.6692f,  2.3004f, 2369.4f},
    {"sm90_pingpong_128x128x64",         {Family::kPingPong, 128, 128,  64,  2, 16},  1,  1,   5772.1f,     0.0f,  5.8427f,  5.6670f, 3115.3f},
    {"sm90_pingpong_128x160x64",         {Family::kPingPong, 128, 160,  64,  2, 16, true},  1,  1,   5784.0f,    16.1f,  6.8048f,  7.4813f, 2386.2f},
    {"sm90_pingpong_128x176x64",         {Family::kPingPong, 128, 176,  64,  2, 16, true},  1,  1,   6771.9f,    21.9f,  7.2035f,  8.0257f, 2631.7f},
    {"sm90_pingpong_128x192x64",         {Family::kPingPong, 128, 192,  64,  2, 16, true},  1,  1,   5797.8f,   217.4f,  8.0475f,  7.9386f, 2682.9f},
    {"sm90_swapped_208x128x64",           {Family::kSwapped,  208, 128,  64,  2, 16},  1,  1,   4021.0f,  2035.5f,  8.7715f, 11.3334f, 4300.0f},
    {"sm90_swapped_176x128x64",           {Family::kSwapped,  176, 128,  64,  2, 16},  1,  1,   5866.8f,   988.8f,  7.4645f,  7.8081f, 2908.3f},
    {"sm90_swapped_160x128x64",           {Family::kSwapped,  160, 128,  64,  2, 16},  1,  1,   5302.1f,   305.0f,  7.2590f,  8.0245f, 1809.3f},
    {"sm90_swapped_144x128x64",           {Family::kSwapped,  144, 128,  64,  2, 16},  1,  1,   4892.2f,  1442.0f,  6.0139f,  8.1865f, 3247.6f},
    {"sm90_swapped_104x128x64",           {Family::kSwapped,  104, 128,  64,  2, 16},  1,  1,   4721.0f,   697.1f,  5.4493f,  8.5619f, 2624.4f},
    {"sm90_swapped_96x128x64",            {Family::kSwapped,   96, 128,  64,  2, 16},  1,  1,   4237.9f,  1379.9f,  4.0090f,  4.7623f, 2431.3f},
    {"sm90_swapped_96x64x128",            {Family::kSwapped,   96,  64, 128,  1, 16},  1,  1,   5182.5f,   524.2f,  2.7268f,  3.5802f, 2222.7f},
    {"sm90_swapped_104x64x128",           {Family::kSwapped,  104,  64, 128,  1, 16},  1,  1,   5971.2f,    25.8f,  3.2776f,  3.7908f, 2016.7f},
    {"sm90_split2_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  2,  1,   8190.3f,    80.8f,  1.7463f,  1.6730f, 3206.0f},
    {"sm90_split4_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  4,  1,   7755.9f,   247.0f,  0.5134f,  0.5644f, 1951.9f},
    {"sm90_split8_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  8,  1,   6313.1f,  1113.1f,  0.3306f,  0.3296f, 2220.9f},
    {"sm90_split2_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  2,  1,   5226.1f,  6000.8f,  3.3320f,  3.4943f, 2758.6f},
    {"sm90_split4_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  4,  1,   3266.2f,  7644.0f,  1.2094f,  1.1759f, 4300.0f},
    {"sm90_split8_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  8,  1,   1901.6f,  8764.6f,  0.7422f,  0.5862f, 4300.0f},
    {"sm90_few_rows_8x64x128",           {Family::kFewRows,    8,  64, 128,  1,  5},  1,  2,   6047.9f,    63.5f,  1.7560f,  1.3286f, 2960.6f},
    {"sm90_few_rows_16x64x128",          {Family::kFewRows,   16,  64, 128,  1,  5},  1,  2,   6586.4f,     0.0f,  1.2041f,  1.7169f, 2841.9f},
    {"sm90_few_rows_32x64x128",          {Family::kFewRows,   32,  64, 128,  1,  4},  1,  2,   5523.0f,   767.7f,  3.2868f,  3.7840f, 3308.7f},
    {"sm90_few_rows_64x64x128",          {Family::kFewRows,   64,  64, 128,  1,  3},  1,  2,   7648.5f,    63.5f,  2.6603f,  2.7997f, 2475.4f},
    {"sm90_few_rows_8x128x64",           {Family::kFewRows,    8, 128,  64,  2,  5},  1,  2,   5463.8f,   224.4f,  4.6015f,  3.4823f, 5060.8f},
    {"sm90_few_rows_16x128x64",          {Family::kFewRows,   16, 128,  64,  2,  5},  1,  2,   4672.9f,  1015.3f,  5.0110f,  4.7797f, 4776.0f},
    {"sm90_few_rows_32x128x64",          {Family::kFewRows,   32, 128,  64,  2,  5},  1,  2,   5630.1f,   653.2f,  4.1292f,  4.6591f, 4555.3f},
    {"sm90_few_rows_64x128x64",          {Family::kFewRows,   64, 128,  64,  2,  4},  1,  2,   7810.5f,     0.0f,  4.1470f,  4.0781f, 3366.6f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  2,  2,   6618.3f,     0.0f,  1.4509f,  1.6850f, 3386.0f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  2,  2,   6429.9f,   323.8f,  1.3490f,  1.0110f, 3865.9f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  2,  2,   6626.2f,   634.9f,  1.5472f,  1.6513f, 3501.8f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  2,  2,   7926.5f,   165.4f,  1.9651f,  2.3392f, 2418.9f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  4,  2,   6907.3f,   141.2f,  0.8048f,  0.7299f, 3159.9f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  4,  2,   6858.5f,   239.9f,  0.8194f,  0.4581f, 3108.4f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  4,  2,   7042.5f,   347.6f,  0.7696f,  0.7273f, 2907.9f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  4,  2,   7553.8f,   275.9f,  0.9639f,  1.3139f, 2450.1f},
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
