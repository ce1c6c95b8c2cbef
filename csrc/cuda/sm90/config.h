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

  // The tile as wgmma sees it: rows in units of 64, split evenly over the consumers, and columns in units of 8. The
  // rows are a's, or, swapped, the columns of b.
  constexpr bool swapped() const { return family == Family::kFewRows || family == Family::kSwapped; }
  constexpr int mma_rows() const { return swapped() ? tile_n : tile_m; }
  constexpr int mma_columns() const { return swapped() ? tile_m : tile_n; }
  constexpr int consumer_rows() const { return family == Family::kPingPong ? mma_rows() : mma_rows() / consumers; }
  constexpr int threads() const { return consumers * 128 + 32; }  // and one producer warp
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
    {"sm90_gemm_128x256x64",             {Family::kGemm,     128, 256,  64,  2, 16},  1,  1,   5672.5f,  1418.9f, 10.5231f, 10.2132f, 4021.6f},
    {"sm90_gemm_128x240x64",             {Family::kGemm,     128, 240,  64,  2, 16},  1,  1,   4366.5f,  1767.7f, 10.0476f,  9.9960f, 3250.3f},
    {"sm90_gemm_128x224x64",             {Family::kGemm,     128, 224,  64,  2, 16},  1,  1,   5611.5f,  1151.8f,  9.2787f,  9.2516f, 3096.4f},
    {"sm90_gemm_128x208x64",             {Family::kGemm,     128, 208,  64,  2, 16},  1,  1,   3732.9f,  2289.7f,  8.7254f,  9.5619f, 4300.0f},
    {"sm90_gemm_128x192x64",             {Family::kGemm,     128, 192,  64,  2, 16},  1,  1,   6232.3f,     0.0f,  8.3458f,  7.9395f, 2512.4f},
    {"sm90_gemm_128x176x64",             {Family::kGemm,     128, 176,  64,  2, 16},  1,  1,   4505.4f,  1505.9f,  7.2985f,  7.8171f, 2609.6f},
    {"sm90_gemm_128x160x64",             {Family::kGemm,     128, 160,  64,  2, 16},  1,  1,   5674.4f,    52.5f,  7.1146f,  7.3003f, 2312.6f},
    {"sm90_gemm_128x144x64",             {Family::kGemm,     128, 144,  64,  2, 16},  1,  1,   4434.9f,  1584.9f,  6.0869f,  7.6605f, 2643.2f},
    {"sm90_gemm_128x128x64",             {Family::kGemm,     128, 128,  64,  2, 16},  1,  1,   5010.4f,   764.9f,  5.5854f,  5.5657f, 3484.3f},
    {"sm90_gemm_128x104x64",             {Family::kGemm,     128, 104,  64,  2, 16},  1,  1,   4908.9f,  1092.9f,  4.9644f,  6.6088f, 3113.1f},
    {"sm90_gemm_128x96x64",              {Family::kGemm,     128,  96,  64,  2, 16},  1,  1,   4942.0f,   693.0f,  4.7322f,  5.3082f, 2167.1f},
    {"sm90_gemm_64x176x64",              {Family::kGemm,      64, 176,  64,  1, 16},  1,  1,   5686.6f,   825.3f,  4.3280f,  5.1531f, 3261.7f},
    {"sm90_gemm_64x128x128",             {Family::kGemm,      64, 128, 128,  1, 16},  1,  1,   5781.6f,   149.8f,  3.4455f,  3.3935f, 2692.8f},
    {"sm90_gemm_64x104x128",             {Family::kGemm,      64, 104, 128,  1, 16},  1,  1,   5966.8f,    48.5f,  3.2421f,  4.9366f, 2375.7f},
    {"sm90_gemm_64x96x128",              {Family::kGemm,      64,  96, 128,  1, 16},  1,  1,   5505.3f,   402.7f,  2.7601f,  3.6530f, 2533.4f},
    {"sm90_gemm_64x64x128",              {Family::kGemm,      64,  64, 128,  1, 16},  1,  1,   5495.4f,     0.0f,  2.3243f,  2.3083f, 2802.9f},
    {"sm90_gemm_64x32x128",              {Family::kGemm,      64,  32, 128,  1, 16},  1,  1,   6256.1f,    22.6f,  1.9042f,  2.2602f, 2362.3f},
    {"sm90_pingpong_128x128x64",         {Family::kPingPong, 128, 128,  64,  2, 16},  1,  1,   6385.5f,     0.0f,  5.6079f,  5.4683f, 2815.3f},
    {"sm90_swapped_208x128x64",           {Family::kSwapped,  208, 128,  64,  2, 16},  1,  1,   3732.9f,  2289.7f,  8.7254f,  8.7254f, 4300.0f},
    {"sm90_swapped_176x128x64",           {Family::kSwapped,  176, 128,  64,  2, 16},  1,  1,   4505.4f,  1505.9f,  7.2985f,  7.2985f, 2609.6f},
    {"sm90_swapped_160x128x64",           {Family::kSwapped,  160, 128,  64,  2, 16},  1,  1,   5674.4f,    52.5f,  7.1146f,  7.1146f, 2312.6f},
    {"sm90_swapped_144x128x64",           {Family::kSwapped,  144, 128,  64,  2, 16},  1,  1,   4434.9f,  1584.9f,  6.0869f,  6.0869f, 2643.2f},
    {"sm90_swapped_104x128x64",           {Family::kSwapped,  104, 128,  64,  2, 16},  1,  1,   4908.9f,  1092.9f,  4.9644f,  4.9644f, 3113.1f},
    {"sm90_swapped_96x128x64",            {Family::kSwapped,   96, 128,  64,  2, 16},  1,  1,   4942.0f,   693.0f,  4.7322f,  4.7322f, 2167.1f},
    {"sm90_swapped_96x64x128",            {Family::kSwapped,   96,  64, 128,  1, 16},  1,  1,   5505.3f,   402.7f,  2.7601f,  2.7601f, 2533.4f},
    {"sm90_swapped_104x64x128",           {Family::kSwapped,  104,  64, 128,  1, 16},  1,  1,   5966.8f,    48.5f,  3.2421f,  3.2421f, 2375.7f},
    {"sm90_split2_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  2,  1,   8310.1f,   288.6f,  2.6114f,  1.3672f, 3171.7f},
    {"sm90_split4_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  4,  1,   7821.0f,   235.9f,  0.5613f,  0.7761f, 1836.3f},
    {"sm90_split8_64x64x128",            {Family::kSplitK,    64,  64, 128,  1, 16},  8,  1,   6367.7f,  1268.7f,  0.4238f,  0.4264f, 2177.8f},
    {"sm90_split2_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  2,  1,   4152.5f,  7025.8f,  3.2921f,  3.4105f, 2682.7f},
    {"sm90_split4_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  4,  1,   3901.4f,  5465.5f,  1.6547f,  1.6490f, 4300.0f},
    {"sm90_split8_128x128x64",           {Family::kSplitK,   128, 128,  64,  2, 16},  8,  1,   2203.6f,  8078.7f,  0.8154f,  0.7997f, 4300.0f},
    {"sm90_few_rows_8x64x128",           {Family::kFewRows,    8,  64, 128,  1,  5},  1,  2,   6277.7f,     3.2f,  1.8759f,  3.6517f, 2987.9f},
    {"sm90_few_rows_16x64x128",          {Family::kFewRows,   16,  64, 128,  1,  5},  1,  2,   6961.5f,     0.0f,  1.8032f,  1.8789f, 2714.6f},
    {"sm90_few_rows_32x64x128",          {Family::kFewRows,   32,  64, 128,  1,  4},  1,  2,   6593.1f,    99.2f,  3.4284f,  4.0043f, 3376.9f},
    {"sm90_few_rows_64x64x128",          {Family::kFewRows,   64,  64, 128,  1,  3},  1,  2,   7936.4f,     0.0f,  3.4171f,  2.9456f, 2958.2f},
    {"sm90_few_rows_8x128x64",           {Family::kFewRows,    8, 128,  64,  2,  5},  1,  2,   6281.7f,     0.0f,  4.7285f,  4.8936f, 4581.0f},
    {"sm90_few_rows_16x128x64",          {Family::kFewRows,   16, 128,  64,  2,  5},  1,  2,   5917.5f,   316.6f,  5.2001f,  5.1635f, 4480.2f},
    {"sm90_few_rows_32x128x64",          {Family::kFewRows,   32, 128,  64,  2,  5},  1,  2,   6789.2f,     0.0f,  4.4237f,  5.0364f, 4315.7f},
    {"sm90_few_rows_64x128x64",          {Family::kFewRows,   64, 128,  64,  2,  4},  1,  2,   8190.7f,     0.0f,  4.2411f,  4.5004f, 3316.7f},
    {"sm90_few_rows_split2_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  2,  2,   7016.0f,     0.0f,  1.5580f,  1.6986f, 3311.3f},
    {"sm90_few_rows_split2_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  2,  2,   6734.5f,   320.9f,  1.4753f,  1.0866f, 3610.8f},
    {"sm90_few_rows_split2_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  2,  2,   8222.3f,     0.0f,  1.5991f,  1.5498f, 3327.2f},
    {"sm90_few_rows_split2_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  2,  2,   8447.8f,    81.3f,  1.9565f,  2.2292f, 2388.9f},
    {"sm90_few_rows_split4_8x64x128",    {Family::kFewRows,    8,  64, 128,  1,  5},  4,  2,   7141.6f,   118.5f,  0.8559f,  1.1777f, 2980.3f},
    {"sm90_few_rows_split4_16x64x128",   {Family::kFewRows,   16,  64, 128,  1,  5},  4,  2,   7256.2f,    43.6f,  0.8916f,  1.2676f, 2967.7f},
    {"sm90_few_rows_split4_32x64x128",   {Family::kFewRows,   32,  64, 128,  1,  4},  4,  2,   7511.6f,    44.7f,  1.1763f,  1.1771f, 2767.6f},
    {"sm90_few_rows_split4_64x64x128",   {Family::kFewRows,   64,  64, 128,  1,  3},  4,  2,   8341.4f,    62.4f,  0.9921f,  1.2215f, 2298.7f},
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
// columns that are left. Two buffers take turns: more would cost a stage of the ring.
constexpr int kStoreRows = 16;
constexpr int kStoreColumns = 64;
constexpr int kStoreBuffers = 2;
constexpr int kStoreBufferBytes = kStoreRows * kStoreColumns * kElementBytes;
constexpr int store_tail(int columns) { return columns % kStoreColumns; }
constexpr int store_chunks(int columns) { return (columns + kStoreColumns - 1) / kStoreColumns; }
constexpr int warp_store_bytes(const TileConfig& tile) {
  const int chunks = tile.consumer_rows() / 64 * store_chunks(tile.mma_columns());
  if (chunks > kStoreBuffers) return kStoreBuffers * kStoreBufferBytes;
  const int bytes = kStoreRows * tile.mma_columns() * kElementBytes;  // all chunks at once
  const int least = kStoreBufferBytes;  // for the outputs that TMA cannot write (gemm/slab_store.cuh)
  return bytes > least ? (bytes + 1023) / 1024 * 1024 : least;
}

constexpr bool persistent(const TileConfig& tile) {
  return tile.family == Family::kGemm || tile.family == Family::kPingPong || tile.family == Family::kSwapped;
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
  const int ring = stages * stage_bytes(tile, major_a, major_b);
  const int slab = persistent(tile) ? 0 : slab_bytes(tile);
  return ring_begin(tile) + (ring > slab ? ring : slab);
}

inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {static_cast<int>((m + tile.tile_m - 1) / tile.tile_m), static_cast<int>((n + tile.tile_n - 1) / tile.tile_n),
          kGroupM};
}

// Products (batch * m * n * k) from which operands that TMA cannot read are copied into aligned buffers; smaller
// problems go to the portable kernels (benchmarks/results/h200/awkward.csv).
constexpr double kCopyPaysFrom = 320.0 * 320.0 * 320.0;

inline double products(const GemmProblem& problem) {
  return static_cast<double>(problem.batch) * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
         static_cast<double>(problem.k);
}

// Why the Hopper kernels cannot run the problem on this GPU; null where every row can.
inline const char* why_not(const GemmProblem& problem, const Gpu& gpu) {
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

}  // namespace tileon::sm90
