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
    {"sm90_gemm_128x256x64",             {Family::kGemm,     128, 256,  64,  2, 16},  1,  1,   7156.2f,   503.5f, 10.7579f, 10.8393f, 3318.3f},
    {"sm90_gemm_128x240x64",             {Family::kGemm,     128, 240,  64,  2, 16},  1,  1,   3269.4f,  2280.8f, 10.1264f, 10.1707f, 3271.6f},
    {"sm90_gemm_128x224x64",             {Family::kGemm,     128, 224,  64,  2, 16},  1,  1,   3357.7f,  2509.6f,  9.3106f,  9.3272f, 4327.3f},
    {"sm90_gemm_128x208x64",             {Family::kGemm,     128, 208,  64,  2, 16},  1,  1,   3832.1f,  1641.0f,  8.7598f,  9.9751f, 4300.0f},
    {"sm90_gemm_128x192x64",             {Family::kGemm,     128, 192,  64,  2, 16},  1,  1,   5480.5f,   349.8f,  7.9912f,  8.1612f, 4474.2f},
    {"sm90_gemm_128x176x64",             {Family::kGemm,     128, 176,  64,  2, 16},  1,  1,   4665.2f,   763.1f,  7.5447f,  7.9338f, 2159.8f},
    {"sm90_gemm_128x160x64",             {Family::kGemm,     128, 160,  64,  2, 16},  1,  1,   5104.1f,   203.0f,  7.2648f,  7.4400f, 2875.7f},
    {"sm90_gemm_128x144x64",             {Family::kGemm,     128, 144,  64,  2, 16},  1,  1,   4888.6f,   559.4f,  6.1963f,  7.7154f, 2321.5f},
    {"sm90_gemm_128x128x64",             {Family::kGemm,     128, 128,  64,  2, 16},  1,  1,   4377.2f,   782.4f,  6.0130f,  6.0115f, 3761.4f},
    {"sm90_gemm_128x104x64",             {Family::kGemm,     128, 104,  64,  2, 16},  1,  1,   6316.5f,   111.5f,  5.0954f,  5.5724f, 2208.3f},
    {"sm90_gemm_128x96x64",              {Family::kGemm,     128,  96,  64,  2, 16},  1,  1,   5002.5f,   289.4f,  4.5828f,  4.9095f, 1981.8f},
    {"sm90_gemm_64x176x64",              {Family::kGemm,      64, 176,  64,  1, 16},  1,  1,   4722.2f,   690.1f,  3.9793f,  4.9647f, 3242.8f},
    {"sm90_gemm_64x128x128",             {Family::kGemm,      64, 128, 128,  1, 16},  1,  1,   5697.8f,     0.0f,  3.2467f,  3.3225f, 2680.4f},
    {"sm90_gemm_64x104x128",             {Family::kGemm,      64, 104, 128,  1, 16},  1,  1,   5818.6f,    35.9f,  3.0847f,  4.2082f, 2424.9f},
    {"sm90_gemm_64x96x128",              {Family::kGemm,      64,  96, 128,  1, 16},  1,  1,   5374.7f,     0.3f,  2.7389f,  3.7223f, 2575.5f},
    {"sm90_gemm_64x64x128",              {Family::kGemm,      64,  64, 128,  1, 16},  1,  1,   4925.4f,   286.4f,  2.2687f,  1.9985f, 2835.2f},
    {"sm90_gemm_64x32x128",              {Family::kGemm,      64,  32, 128,  1, 16},  1,  1,   5003.8f,   172.3f,  1.6131f,  3.1301f, 2260.5f},
    {"sm90_pingpong_128x128x64",         {Family::kPingPong, 128, 128,  64,  2, 16},  1,  1,   5819.9f,     0.0f,  5.6958f,  5.7266f, 3067.4f},
    {"sm90_pingpong_128x160x64",         {Family::kPingPong, 128, 160,  64,  2, 16, true},  1,  1,  5819.9f,     0.0f,  7.1000f,  7.1000f, 3067.4f},
    {"sm90_pingpong_128x176x64",         {Family::kPingPong, 128, 176,  64,  2, 16, true},  1,  1,  5819.9f,     0.0f,  7.3000f,  7.8000f, 3067.4f},
    {"sm90_pingpong_128x192x64",         {Family::kPingPong, 128, 192,  64,  2, 16, true},  1,  1,  5819.9f,     0.0f,  7.8000f,  7.8000f, 3067.4f},
    {"sm90_swapped_208x128x64",           {Family::kSwapped,  208, 128,  64,  2, 16},  1,  1,   3758.0f,  2272.0f,  8.8162f, 11.1772f, 4300.0f},
    {"sm90_swapped_176x128x64",           {Family::kSwapped,  176, 128,  64,  2, 16},  1,  1,   4790.6f,  1827.4f,  7.4645f,  7.8726f, 2876.0f},
    {"sm90_swapped_160x128x64",           {Family::kSwapped,  160, 128,  64,  2, 16},  1,  1,   5074.8f,   383.6f,  7.3353f,  8.0455f, 1785.5f},
    {"sm90_swapped_144x128x64",           {Family::kSwapped,  144, 128,  64,  2, 16},  1,  1,   4849.7f,  1458.8f,  6.0445f,  8.1107f, 3225.5f},
    {"sm90_swapped_104x128x64",           {Family::kSwapped,  104, 128,  64,  2, 16},  1,  1,   4596.3f,   772.9f,  5.5679f,  6.7153f, 2776.5f},
    {"sm90_swapped_96x128x64",            {Family::kSwapped,   96, 128,  64,  2, 16},  1,  1,   4317.2f,  1153.3f,  4.0627f,  4.8649f, 2479.8f},
    {"sm90_swapped_96x64x128",            {Family::kSwapped,   96,  64, 128,  1, 16},  1,  1,   5154.7f,   403.1f,  2.7517f,  3.4071f, 2291.9f},
    {"sm90_swapped_104x64x128",           {Family::kSwapped,  104,  64, 128,  1, 16},  1,  1,   5528.5f,     0.9f,  3.2895f,  4.2897f, 1994.6f},
    {"sm90_split2_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  2,  1,   8102.0f,     9.0f,  1.6847f,  1.6774f, 3239.7f},
    {"sm90_split4_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  4,  1,   7721.9f,   164.9f,  0.4987f,  0.5681f, 2029.4f},
    {"sm90_split8_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  8,  1,   6313.1f,   957.8f,  0.3321f,  0.3296f, 2237.7f},
    {"sm90_split2_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  2,  1,   3974.6f,  5142.0f,  3.4729f,  3.8759f, 2712.4f},
    {"sm90_split4_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  4,  1,   3139.9f,  7265.0f,  1.1860f,  1.2247f, 4300.0f},
    {"sm90_split8_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  8,  1,   2542.7f,  8298.1f,  0.7630f,  0.5842f, 4300.0f},
    {"sm90_few_rows_8x64x128",           {Family::kFewRows,    8,  64, 128,  1,  5},  1,  2,   5917.2f,     3.4f,  1.5047f,  1.3286f, 2943.5f},
    {"sm90_few_rows_16x64x128",          {Family::kFewRows,   16,  64, 128,  1,  5},  1,  2,   6432.0f,     0.0f,  1.1993f,  1.6569f, 2856.4f},
    {"sm90_few_rows_32x64x128",          {Family::kFewRows,   32,  64, 128,  1,  4},  1,  2,   5523.0f,   520.7f,  3.2599f,  3.7840f, 3318.1f},
    {"sm90_few_rows_64x64x128",          {Family::kFewRows,   64,  64, 128,  1,  3},  1,  2,   7479.6f,     0.0f,  2.5760f,  2.7084f, 2517.6f},
    {"sm90_few_rows_8x128x64",           {Family::kFewRows,    8, 128,  64,  2,  5},  1,  2,   5422.8f,    68.2f,  4.8077f,  3.5592f, 5283.8f},
    {"sm90_few_rows_16x128x64",          {Family::kFewRows,   16, 128,  64,  2,  5},  1,  2,   4739.5f,   752.6f,  4.9910f,  4.6996f, 4839.9f},
    {"sm90_few_rows_32x128x64",          {Family::kFewRows,   32, 128,  64,  2,  5},  1,  2,   5653.9f,   315.0f,  4.0267f,  4.7098f, 4713.9f},
    {"sm90_few_rows_64x128x64",          {Family::kFewRows,   64, 128,  64,  2,  4},  1,  2,   7580.8f,     0.0f,  4.1646f,  4.1036f, 3336.7f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  2,  2,   6475.9f,     0.0f,  1.4483f,  1.6741f, 3378.4f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  2,  2,   6597.8f,   150.1f,  1.3901f,  0.9895f, 3881.4f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  2,  2,   6776.7f,   251.7f,  1.5704f,  1.6162f, 3524.5f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  2,  2,   7912.1f,    46.4f,  2.0715f,  2.1663f, 2484.0f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  4,  2,   6907.3f,    20.0f,  0.8048f,  0.9933f, 3209.3f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  4,  2,   6933.8f,   115.3f,  0.8326f,  0.4342f, 3111.8f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  4,  2,   7079.9f,   199.9f,  0.8642f,  0.7153f, 2894.6f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  4,  2,   7503.2f,   216.4f,  0.9463f,  1.2869f, 2434.3f},
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
