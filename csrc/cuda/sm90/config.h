// The Hopper kernels' tile table and the choice of a row: data and a pure function, compiled by any C++ compiler.
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
  kFewRows,   // the same with b's columns on wgmma's row axis, which has 64, so that a few rows of a waste nothing
  kGemv,      // a single row of a, no tensor cores
};

// Everything that shapes a kernel. A row of the table is used as a template argument as it stands.
struct TileConfig {
  Family family;
  int tile_m;  // of the output
  int tile_n;
  int block_k;     // elements of k in one stage
  int consumers;   // warpgroups that multiply
  int max_stages;  // as many as fit, but no more than these

  // The tile as wgmma sees it: rows in units of 64, split evenly over the consumers, and columns.
  constexpr bool swapped() const { return family == Family::kFewRows; }
  constexpr int mma_rows() const { return swapped() ? tile_n : tile_m; }
  constexpr int mma_columns() const { return swapped() ? tile_m : tile_n; }
  constexpr int consumer_rows() const { return family == Family::kPingPong ? mma_rows() : mma_rows() / consumers; }
  constexpr bool has_producer() const { return family != Family::kGemv; }
  constexpr int threads() const { return consumers * 128 + (has_producer() ? 32 : 0); }  // one producer warp
};

constexpr int kGroupM = 8;  // rows of tiles in a group (tile_order.h); 2 to 16 lie within 1 %

struct Row {
  const char* name;
  TileConfig tile;
  int splits;    // CTAs of a cluster that share a tile's k
  int resident;  // CTAs that an SM holds at a time
  // Nanoseconds: start + the larger of waves * (per_tile + per_k * k) and bytes / bytes_per_ns; per_k_mn is for an
  // mn-major b (choice.h). Fitted on an H200 to benchmarks/results/h200/sweep.csv by benchmarks/fit_hopper.py, which
  // also says what the choice loses.
  float start;
  float per_tile;
  float per_k;
  float per_k_mn;
  float bytes_per_ns;
};

// clang-format off
constexpr Row kRows[] = {
    // name                              family              tile m, n, k    consumers, stages  splits, resident   start, per_tile, per_k, per_k_mn, bytes_per_ns
    {"sm90_gemm_128x256x64",             {Family::kGemm,     128, 256,  64,  2, 16},  1,  1,   5488.9f,  1667.2f, 10.9131f, 10.1266f, 4458.6f},
    {"sm90_gemm_128x240x64",             {Family::kGemm,     128, 240,  64,  2, 16},  1,  1,   5488.9f,  1667.2f, 10.2310f,  9.4937f, 4458.6f},
    {"sm90_gemm_256x128x64",             {Family::kGemm,     256, 128,  64,  2, 16},  1,  1,   4988.7f,  2068.6f, 11.4963f, 10.8838f, 4300.0f},
    {"sm90_gemm_128x224x64",             {Family::kGemm,     128, 224,  64,  2, 16},  1,  1,   3432.1f,  2900.9f,  9.5737f,  9.0197f, 3202.2f},
    {"sm90_gemm_128x216x64",             {Family::kGemm,     128, 216,  64,  2, 16},  1,  1,   3432.1f,  2900.9f,  9.2318f,  8.6976f, 3202.2f},
    {"sm90_gemm_128x208x64",             {Family::kGemm,     128, 208,  64,  2, 16},  1,  1,   4976.3f,  1321.0f,  9.0877f,  9.8898f, 4300.0f},
    {"sm90_gemm_128x200x64",             {Family::kGemm,     128, 200,  64,  2, 16},  1,  1,   4976.3f,  1321.0f,  8.7382f,  9.5094f, 4300.0f},
    {"sm90_gemm_128x192x64",             {Family::kGemm,     128, 192,  64,  2, 16},  1,  1,   5697.6f,   789.8f,  8.3768f,  7.6678f, 4982.1f},
    {"sm90_gemm_128x176x64",             {Family::kGemm,     128, 176,  64,  2, 16},  1,  1,   5380.9f,  1269.1f,  7.5032f,  7.2832f, 4250.2f},
    {"sm90_gemm_128x168x64",             {Family::kGemm,     128, 168,  64,  2, 16},  1,  1,   5380.9f,  1269.1f,  7.1621f,  6.9521f, 4250.2f},
    {"sm90_gemm_128x160x64",             {Family::kGemm,     128, 160,  64,  2, 16},  1,  1,   5141.9f,  1010.3f,  7.1071f,  7.0896f, 2246.1f},
    {"sm90_gemm_128x152x64",             {Family::kGemm,     128, 152,  64,  2, 16},  1,  1,   5141.9f,  1010.3f,  6.7517f,  6.7351f, 2246.1f},
    {"sm90_gemm_128x144x64",             {Family::kGemm,     128, 144,  64,  2, 16},  1,  1,   5061.4f,  1519.9f,  6.2461f,  7.3739f, 2606.9f},
    {"sm90_gemm_128x128x64",             {Family::kGemm,     128, 128,  64,  2, 16},  1,  1,   5393.8f,   638.2f,  5.8345f,  5.8057f, 3957.4f},
    {"sm90_gemm_128x120x64",             {Family::kGemm,     128, 120,  64,  2, 16},  1,  1,   5393.8f,   638.2f,  5.5428f,  5.5154f, 3957.4f},
    {"sm90_gemm_128x104x64",             {Family::kGemm,     128, 104,  64,  2, 16},  1,  1,   5393.8f,   638.2f,  4.9885f,  4.9639f, 3957.4f},
    {"sm90_gemm_128x96x64",              {Family::kGemm,     128,  96,  64,  2, 16},  1,  1,   5206.3f,   695.4f,  4.9462f,  5.3897f, 3179.5f},
    {"sm90_gemm_192x96x64",              {Family::kGemm,     192,  96,  64,  3, 16},  1,  1,   4544.1f,  1789.9f,  6.5747f,  7.5485f, 4300.0f},
    {"sm90_gemm_64x176x64",              {Family::kGemm,      64, 176,  64,  1, 16},  1,  1,   5770.6f,   577.8f,  4.3123f,  5.5517f, 3285.4f},
    {"sm90_gemm_64x168x64",              {Family::kGemm,      64, 168,  64,  1, 16},  1,  1,   5770.6f,   577.8f,  4.1163f,  5.2994f, 3285.4f},
    {"sm90_gemm_64x128x128",             {Family::kGemm,      64, 128, 128,  1, 16},  1,  1,   6281.8f,   172.4f,  3.3969f,  3.3564f, 3317.9f},
    {"sm90_gemm_64x104x128",             {Family::kGemm,      64, 104, 128,  1, 16},  1,  1,   6281.8f,   172.4f,  2.9893f,  2.9536f, 3317.9f},
    {"sm90_gemm_64x96x128",              {Family::kGemm,      64,  96, 128,  1, 16},  1,  1,   5885.4f,   458.6f,  2.7206f,  3.0594f, 2549.4f},
    {"sm90_gemm_64x72x128",              {Family::kGemm,      64,  72, 128,  1, 16},  1,  1,   5885.4f,   458.6f,  2.3125f,  2.6005f, 2549.4f},
    {"sm90_gemm_64x64x128",              {Family::kGemm,      64,  64, 128,  1, 16},  1,  1,   5940.5f,    31.6f,  2.8436f,  2.3099f, 4273.0f},
    {"sm90_gemm_64x56x128",              {Family::kGemm,      64,  56, 128,  1, 16},  1,  1,   5940.5f,    31.6f,  2.7014f,  2.1944f, 4273.0f},
    {"sm90_gemm_64x32x128",              {Family::kGemm,      64,  32, 128,  1, 16},  1,  1,   5607.2f,   142.4f,  2.6849f,  7.6732f, 4300.0f},
    {"sm90_pingpong_128x128x64",         {Family::kPingPong, 128, 128,  64,  2, 16},  1,  1,   6251.8f,     0.0f,  5.8946f,  5.4930f, 2628.1f},
    {"sm90_split2_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  2,  1,   8526.6f,    35.9f,  2.0080f,  1.6080f, 2927.1f},
    {"sm90_split4_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  4,  1,   6840.5f,   991.5f,  0.5806f,  0.7748f, 1759.2f},
    {"sm90_split8_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  8,  1,   6791.6f,  1095.3f,  0.8894f,  0.8923f, 4300.0f},
    {"sm90_split2_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  2,  1,   5358.7f,  5866.1f,  3.4251f,  3.4988f, 4300.0f},
    {"sm90_split4_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  4,  1,   6022.3f,  2991.3f,  2.1969f,  2.4441f, 2193.2f},
    {"sm90_split8_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  8,  1,   1139.3f,  8668.9f,  1.4647f,  1.0759f, 4300.0f},
    {"sm90_few_rows_8x64x128",           {Family::kFewRows,    8,  64, 128,  1,  5},  1,  2,   6583.2f,    94.1f,  1.7954f,  2.2875f, 2835.6f},
    {"sm90_few_rows_16x64x128",          {Family::kFewRows,   16,  64, 128,  1,  5},  1,  2,   6981.9f,    46.5f,  1.7684f,  2.0234f, 2834.5f},
    {"sm90_few_rows_32x64x128",          {Family::kFewRows,   32,  64, 128,  1,  4},  1,  2,   6512.2f,   451.8f,  3.3239f,  3.6316f, 3393.9f},
    {"sm90_few_rows_64x64x128",          {Family::kFewRows,   64,  64, 128,  1,  3},  1,  2,   7958.0f,     0.0f,  3.6747f,  2.9372f, 2817.5f},
    {"sm90_few_rows_8x128x64",           {Family::kFewRows,    8, 128,  64,  2,  5},  1,  2,   6189.6f,    54.6f,  5.0758f,  4.9154f, 5336.0f},
    {"sm90_few_rows_16x128x64",          {Family::kFewRows,   16, 128,  64,  2,  5},  1,  2,   5989.0f,   411.0f,  5.1720f,  5.1431f, 4967.1f},
    {"sm90_few_rows_32x128x64",          {Family::kFewRows,   32, 128,  64,  2,  5},  1,  2,   6903.3f,     0.0f,  4.9264f,  4.9453f, 4821.9f},
    {"sm90_few_rows_64x128x64",          {Family::kFewRows,   64, 128,  64,  2,  4},  1,  2,   8473.7f,     0.0f,  4.2942f,  4.4982f, 3291.9f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  2,  2,   6838.0f,    48.5f,  1.4626f,  1.7017f, 4258.9f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  2,  2,   6544.3f,   412.7f,  2.0612f,  1.3522f, 4421.4f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  2,  2,   6677.8f,   774.5f,  2.0840f,  2.4396f, 3656.1f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  2,  2,   8568.2f,     2.8f,  2.0164f,  2.2563f, 2410.8f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  4,  2,   7123.7f,   126.7f,  0.8397f,  1.1541f, 3036.0f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  4,  2,   7093.7f,    41.6f,  0.9445f,  1.7017f, 3036.5f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  4,  2,   7329.1f,     0.0f,  1.5470f,  2.3025f, 2622.1f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  4,  2,   8199.5f,     0.0f,  0.9994f,  1.4794f, 2356.0f},
    {"sm90_gemv_1x16x256",               {Family::kGemv,       1,  16, 256,  2,  1},  1,  8,   8616.8f,  1000.0f,  0.2400f,  0.2400f, 3544.0f},
};
// clang-format on
constexpr int kRowCount = sizeof(kRows) / sizeof(kRows[0]);

// Shared memory, which begins at a multiple of 1024 bytes: the ring's barriers, each consumer's bias, what the warps of
// a persistent kernel store through, then the ring.
constexpr int kSmemLimit = 227 * 1024;  // the largest opt-in size on sm_90
constexpr int kBarrierBytes = 1024;
constexpr int kMaxColumns = 256;  // of a tile
constexpr int kBiasBytes = kMaxColumns * 4;

// A warp of a persistent kernel stores its 16 rows in chunks of 64 columns, 128-byte swizzled, and one of the columns
// that are left. Two buffers take turns: more would cost a stage of the ring.
constexpr int kStoreRows = 16;
constexpr int kStoreColumns = 64;
constexpr int kStoreBuffers = 2;
constexpr int kStoreBufferBytes = kStoreRows * kStoreColumns * kElementBytes;
constexpr int store_tail(int tile_n) { return tile_n % kStoreColumns; }
constexpr int store_chunks(int tile_n) { return (tile_n + kStoreColumns - 1) / kStoreColumns; }  // of a row
constexpr int warp_store_bytes(const TileConfig& tile) {
  const int chunks = tile.consumer_rows() / 64 * store_chunks(tile.tile_n);
  if (chunks > kStoreBuffers) return kStoreBuffers * kStoreBufferBytes;
  const int bytes = kStoreRows * tile.tile_n * kElementBytes;  // all chunks at once
  const int least = kStoreBufferBytes;  // for the outputs that TMA cannot write (gemm/slab_store.cuh)
  return bytes > least ? (bytes + 1023) / 1024 * 1024 : least;
}

constexpr bool persistent(const TileConfig& tile) {
  return tile.family == Family::kGemm || tile.family == Family::kPingPong;
}
constexpr int staging_begin(const TileConfig& tile) {
  return kBarrierBytes + (persistent(tile) ? tile.consumers * kBiasBytes : 0);
}
constexpr int ring_begin(const TileConfig& tile) {
  const int staging = persistent(tile) ? tile.consumers * 4 * warp_store_bytes(tile) : 0;
  return (staging_begin(tile) + staging + 1023) / 1024 * 1024;
}

constexpr int operand_bytes(int tile_mn, int block_k, Major major) {
  const int lines = major == Major::kK ? tile_mn : (tile_mn + kPanel - 1) / kPanel * kPanel;
  return lines * block_k * kElementBytes;
}

// `major_a` and `major_b` are the operands' as the problem has them.
constexpr int stage_bytes(const TileConfig& tile, Major major_a, Major major_b) {
  return operand_bytes(tile.tile_m, tile.block_k, major_a) + operand_bytes(tile.tile_n, tile.block_k, major_b);
}

constexpr int ring_stages(const TileConfig& tile, Major major_a, Major major_b) {
  const int fit = (kSmemLimit - ring_begin(tile)) / stage_bytes(tile, major_a, major_b);
  return fit < tile.max_stages ? fit : tile.max_stages;
}

// A CTA's sums in float32, which take the ring's place. The pitch spreads a fragment's writes over the banks: rows of
// the slab are rows of the output, and a thread holds two neighbours along wgmma's columns.
constexpr int slab_pitch(const TileConfig& tile) { return tile.tile_n + (tile.swapped() ? 4 : 8); }
constexpr int slab_bytes(const TileConfig& tile) { return tile.tile_m * slab_pitch(tile) * 4; }

constexpr int shared_bytes(const TileConfig& tile, Major major_a, Major major_b, int stages) {
  if (tile.family == Family::kGemv) return 0;
  const int ring = stages * stage_bytes(tile, major_a, major_b);
  const int slab = persistent(tile) ? 0 : slab_bytes(tile);
  return ring_begin(tile) + (ring > slab ? ring : slab);
}

inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {static_cast<int>((m + tile.tile_m - 1) / tile.tile_m), static_cast<int>((n + tile.tile_n - 1) / tile.tile_n),
          kGroupM};
}

constexpr int64_t kGemvMaxK = 32 * 1024;  // the gemv keeps its row of a in shared memory, with room for two CTAs an SM

// Products (batch * m * n * k) from which operands that TMA cannot read are copied into aligned buffers; smaller
// problems go to the portable kernels (benchmarks/results/h200/awkward.csv).
constexpr double kCopyPaysFrom = 320.0 * 320.0 * 320.0;

inline double products(const GemmProblem& problem) {
  return static_cast<double>(problem.batch) * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
         static_cast<double>(problem.k);
}

// Why no row can run the problem on this GPU; null where all but the gemv can.
inline const char* why_not_hopper(const GemmProblem& problem, const Gpu& gpu) {
  if (problem.dtype != DType::kFloat16 && problem.dtype != DType::kBFloat16)
    return "it does not take operands of this dtype";
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  constexpr int64_t limit = int64_t{1} << 31;  // of TMA's coordinates, and of the number of tiles
  if (problem.m >= limit || problem.n >= limit || problem.k >= limit || problem.batch >= limit)
    return "a size is 2^31 or more";
  const int64_t tiles = ((problem.m + 7) / 8) * ((problem.n + 31) / 32);  // no row has smaller ones
  if (tiles >= limit / 8 / problem.batch) return "there are too many tiles";
  if (!tma_access(problem.a, problem.batch, problem.m, problem.k, kElementBytes).readable)
    return "it cannot read the strides or the alignment of `a`";
  if (!tma_access(problem.b, problem.batch, problem.n, problem.k, kElementBytes).readable)
    return "it cannot read the strides or the alignment of `b`";
  return nullptr;
}

inline const char* why_not(const Row& row, const GemmProblem& problem, const Gpu& gpu) {
  if (const char* reason = why_not_hopper(problem, gpu)) return reason;
  if (row.tile.family != Family::kGemv) return nullptr;
  if (problem.m != 1) return "it takes a single row of `a`";
  if (problem.k > kGemvMaxK) return "k is too long for it";
  if (problem.k > 1 && problem.a.stride_k != 1) return "it cannot read the strides or the alignment of `a`";
  const TmaAccess b = tma_access(problem.b, problem.batch, problem.n, problem.k, kElementBytes);
  return b.major == Major::kK ? nullptr : "it cannot read the strides or the alignment of `b`";
}

}  // namespace tileon::sm90
