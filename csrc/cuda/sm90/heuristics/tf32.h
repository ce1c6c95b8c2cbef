// TF32 products: the configs, which operands each of them takes, and when they pay. Data and pure functions, compiled
// by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/cost.h"

namespace tileon::sm90 {

// TMA rounds both operands to tf32. wgmma reads its columns along k alone. Its rows may be mn-major where a consumer
// has 64 of them (mainloop/mma_tf32.cuh): those of a in cooperative configs, those of b in swapped ones. The costs are
// fitted to 292 random products and 120 of a short k, which every config multiplied, on an H100, launches among them.
// clang-format off
constexpr KernelConfig kTf32Configs[] = {
    // name                              operands         family                tile m, n, k  consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_tf32_128x256x32",             Operands::kTf32, {Family::kCooperative, 128, 256, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {3861.1f, 4254.2f, 21.77f, 1838.4f}},
    {"sm90_tf32_128x224x32",             Operands::kTf32, {Family::kCooperative, 128, 224, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {4329.5f, 3275.0f, 19.12f, 1878.2f}},
    {"sm90_tf32_128x192x32",             Operands::kTf32, {Family::kCooperative, 128, 192, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {4182.2f, 3163.9f, 16.99f, 1887.5f}},
    {"sm90_tf32_128x160x32",             Operands::kTf32, {Family::kCooperative, 128, 160, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {3220.2f, 3995.3f, 14.08f, 2038.5f}},
    {"sm90_tf32_128x128x32",             Operands::kTf32, {Family::kCooperative, 128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {3602.5f, 3327.7f, 12.30f, 2217.2f}},
    {"sm90_tf32_64x128x32",              Operands::kTf32, {Family::kCooperative,  64, 128, 32, 1, 16, false, kTf32Bytes}, 1, 1, {4897.5f, 1859.1f, 6.94f, 2185.9f}},
    {"sm90_tf32_64x64x32",               Operands::kTf32, {Family::kCooperative,  64,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5375.3f, 1023.5f, 4.86f, 2241.2f}},
    {"sm90_tf32_pingpong_128x192x32",    Operands::kTf32, {Family::kPingpong,    128, 192, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {8018.8f, 4025.1f, 15.77f, 1783.0f}},
    {"sm90_tf32_pingpong_128x160x32",    Operands::kTf32, {Family::kPingpong,    128, 160, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {4163.6f, 3249.3f, 14.40f, 1865.4f}},
    {"sm90_tf32_pingpong_128x128x32",    Operands::kTf32, {Family::kPingpong,    128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {4143.1f, 3181.5f, 12.32f, 2288.0f}},
    {"sm90_tf32_swapped_256x128x32",     Operands::kTf32, {Family::kSwapAb,      256, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {11179.5f, 6764.4f, 20.00f, 2310.7f}},
    {"sm90_tf32_swapped_224x128x32",     Operands::kTf32, {Family::kSwapAb,      224, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {9347.0f, 5623.5f, 17.94f, 2329.3f}},
    {"sm90_tf32_swapped_192x128x32",     Operands::kTf32, {Family::kSwapAb,      192, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {5231.8f, 4737.9f, 16.51f, 1973.1f}},
    {"sm90_tf32_swapped_160x128x32",     Operands::kTf32, {Family::kSwapAb,      160, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {5538.5f, 3898.1f, 13.56f, 2368.5f}},
    {"sm90_tf32_swapped_128x128x32",     Operands::kTf32, {Family::kSwapAb,      128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {4888.3f, 2986.9f, 11.67f, 2433.7f}},
    {"sm90_tf32_swapped_64x128x32",      Operands::kTf32, {Family::kSwapAb,       64, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {5301.0f, 1552.0f, 7.04f, 2231.7f}},
    {"sm90_tf32_swapped_128x64x32",      Operands::kTf32, {Family::kSwapAb,      128,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {6872.0f, 539.7f, 7.68f, 1961.9f}},
    {"sm90_tf32_swapped_64x64x32",       Operands::kTf32, {Family::kSwapAb,       64,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5518.4f, 1266.3f, 4.53f, 2177.9f}},
};
// clang-format on
constexpr int kTf32ConfigCount = sizeof(kTf32Configs) / sizeof(kTf32Configs[0]);

// Whether a config's kernels read operands of these majors: all of them two that lie along k.
constexpr bool takes_a(const TileConfig& tile, Major a) {
  return a == Major::kK || tile.family == Family::kCooperative;
}
constexpr bool takes_b(const TileConfig& tile, Major b) { return b == Major::kK || tile.family == Family::kSwapAb; }

inline bool is_tf32(const Problem& problem) { return problem.a.dtype == DType::kFloat32 && problem.allow_tf32; }

// Of an H200's memory, which has 4.8 TB/s for an H100's 3.35, so much more than the configs' numbers say: 20 layers of
// 1 to 64 rows by weights of 64 MB and more (batch_invariant.csv) read 2,900 to 3,900 bytes a nanosecond.
constexpr float kTf32MemoryOfH200 = 1.6f;

struct Tf32Copies {
  bool a = false, b = false;
};

// What has to be copied along k before these kernels read it: what TMA cannot read and, of two mn-major operands, the
// one with fewer numbers.
inline Tf32Copies tf32_copies(const Problem& problem) {
  const TmaAccesses access(problem, kTf32Bytes);
  Tf32Copies copies{!access.a.readable, !access.b.readable};
  const auto is_mn_major = [](const TmaAccess& of) { return of.readable && of.major == Major::kMn; };
  if (is_mn_major(access.a) && is_mn_major(access.b)) (problem.m < problem.n ? copies.a : copies.b) = true;
  return copies;
}

// Nanoseconds that a consumer takes longer for an element of a tile of float32 where two columns of a row are stored at
// once, and where each is stored alone; and the share of that in swapped kernels. From outputs of 282, 299, 3559 and
// 13913 columns.
constexpr double kTwoColumnsNs = 0.4, kSingleColumnsNs = 0.9;
constexpr double kSwappedStoreShare = 0.7;

// And where the tile is staged, for a formula that is not cheap, beside what the tile takes: so that four products of 13
// to 107 us on an H200 are expected as they were measured.
constexpr double kTf32ActivatedNs = 0.6;

// Beside its bound, which is of rows that are stored four columns at once.
inline double tf32_store_ns(const KernelConfig& config, const Problem& problem, int sm_count) {
  if (!is_cheap_epilogue(problem))
    return kTf32ActivatedNs / kStagedNs * staged_store_ns(config, problem, waves_of(config, problem, sm_count));
  if (takes_vector_stores(problem, 4)) return 0;
  const TileConfig& tile = config.tile;
  const double columns = std::min<double>(tile.tile_n, static_cast<double>(problem.n));
  const double elements = waves_of(config, problem, sm_count) * tile.tile_m * columns / tile.consumers;
  return elements * (takes_vector_stores(problem, 2) ? kTwoColumnsNs : kSingleColumnsNs) *
         (tile.swapped() ? kSwappedStoreShare : 1.0);
}

}  // namespace tileon::sm90
