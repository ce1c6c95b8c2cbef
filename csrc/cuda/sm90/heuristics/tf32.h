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
// fitted to 39 products on an H100, launches among them.
// clang-format off
constexpr KernelConfig kTf32Configs[] = {
    // name                              operands         family                tile m, n, k  consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_tf32_128x256x32",             Operands::kTf32, {Family::kCooperative, 128, 256, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6385.1f, 6100.3f, 19.12f, 2800.0f}},
    {"sm90_tf32_128x224x32",             Operands::kTf32, {Family::kCooperative, 128, 224, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {8493.2f, 6934.4f, 14.71f, 2800.0f}},
    {"sm90_tf32_128x192x32",             Operands::kTf32, {Family::kCooperative, 128, 192, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {8257.6f, 3166.3f, 15.09f, 2800.0f}},
    {"sm90_tf32_128x160x32",             Operands::kTf32, {Family::kCooperative, 128, 160, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6526.0f, 7424.8f, 11.00f, 2800.0f}},
    {"sm90_tf32_128x128x32",             Operands::kTf32, {Family::kCooperative, 128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {4942.6f, 1727.3f, 12.09f, 2800.0f}},
    {"sm90_tf32_64x128x32",              Operands::kTf32, {Family::kCooperative,  64, 128, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5000.0f, 1393.3f, 8.04f, 2800.0f}},
    {"sm90_tf32_64x64x32",               Operands::kTf32, {Family::kCooperative,  64,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5005.9f, 1058.7f, 5.71f, 2800.0f}},
    {"sm90_tf32_pingpong_128x192x32",    Operands::kTf32, {Family::kPingpong,    128, 192, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6937.1f, 4846.8f, 16.48f, 2800.0f}},
    {"sm90_tf32_pingpong_128x160x32",    Operands::kTf32, {Family::kPingpong,    128, 160, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6116.9f, 5378.1f, 11.60f, 2800.0f}},
    {"sm90_tf32_pingpong_128x128x32",    Operands::kTf32, {Family::kPingpong,    128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {4320.2f, 1401.3f, 12.68f, 2800.0f}},
    {"sm90_tf32_swapped_256x128x32",     Operands::kTf32, {Family::kSwapAb,      256, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {7910.7f, 8799.5f, 18.81f, 2800.0f}},
    {"sm90_tf32_swapped_224x128x32",     Operands::kTf32, {Family::kSwapAb,      224, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6956.1f, 6633.3f, 17.03f, 2800.0f}},
    {"sm90_tf32_swapped_192x128x32",     Operands::kTf32, {Family::kSwapAb,      192, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6134.9f, 7806.7f, 13.86f, 2800.0f}},
    {"sm90_tf32_swapped_160x128x32",     Operands::kTf32, {Family::kSwapAb,      160, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6465.0f, 4466.3f, 12.27f, 2800.0f}},
    {"sm90_tf32_swapped_128x128x32",     Operands::kTf32, {Family::kSwapAb,      128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {5962.9f, 1042.4f, 13.24f, 2800.0f}},
    {"sm90_tf32_swapped_64x128x32",      Operands::kTf32, {Family::kSwapAb,       64, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {5000.0f, 1442.3f, 7.83f, 2800.0f}},
    {"sm90_tf32_swapped_128x64x32",      Operands::kTf32, {Family::kSwapAb,      128,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5204.5f, 256.1f, 9.69f, 2800.0f}},
    {"sm90_tf32_swapped_64x64x32",       Operands::kTf32, {Family::kSwapAb,       64,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {4993.2f, 644.5f, 6.95f, 2800.0f}},
};
// clang-format on
constexpr int kTf32ConfigCount = sizeof(kTf32Configs) / sizeof(kTf32Configs[0]);

// Whether a config's kernels read operands of these majors: all of them two that lie along k.
constexpr bool takes_a(const TileConfig& tile, Major a) {
  return a == Major::kK || tile.family == Family::kCooperative;
}
constexpr bool takes_b(const TileConfig& tile, Major b) { return b == Major::kK || tile.family == Family::kSwapAb; }

inline bool is_tf32(const Problem& problem) { return problem.a.dtype == DType::kFloat32 && problem.allow_tf32; }

// What the portable kernels take, roughly: a tile's k, or as many products as all SMs get done. Where there are few
// tiles they slice k, which takes a launch more.
constexpr double kPortableTf32StartNs = 5800.0;
constexpr double kPortableTf32NsPerK = 15.3;
constexpr double kPortableTf32ProductsPerNs = 77000.0;
constexpr double kPortableTf32SlicedNs = 14000.0;

inline double portable_tf32_ns(const Problem& problem) {
  const double tile = std::min(kPortableTf32NsPerK * static_cast<double>(problem.k), kPortableTf32SlicedNs);
  return kPortableTf32StartNs + std::max(tile, problem.products() / kPortableTf32ProductsPerNs);
}

// And the kernels of this folder, as roughly: before the majors are known.
constexpr double kTf32StartNs = 6500.0;
constexpr double kTf32NsPerK = 6.7;
constexpr double kTf32ProductsPerNs = 180000.0;

inline double rough_tf32_ns(const Problem& problem) {
  return kTf32StartNs + std::max(kTf32NsPerK * static_cast<double>(problem.k), problem.products() / kTf32ProductsPerNs);
}

// ---- copies, which lie along k ----

// Nanoseconds of a copy: every byte read and written once.
constexpr double kTf32CopyStartNs = 2500.0;
constexpr double kTf32CopyBytesPerNs = 2500.0;

inline double tf32_copy_ns(const Problem& problem, int64_t mn) {
  const double numbers = static_cast<double>(problem.batch * mn) * static_cast<double>(problem.k);
  return kTf32CopyStartNs + 2.0 * kTf32Bytes * numbers / kTf32CopyBytesPerNs;
}

struct Tf32Copies {
  bool a = false, b = false;
};

// What has to be copied before these kernels read it: what TMA cannot read and, of two mn-major operands, the one with
// fewer numbers; nothing where that takes longer than it saves.
inline Tf32Copies tf32_copies(const Problem& problem) {
  const TmaAccesses access(problem, kTf32Bytes);
  Tf32Copies copies{!access.a.readable, !access.b.readable};
  const auto is_mn_major = [](const TmaAccess& of) { return of.readable && of.major == Major::kMn; };
  if (is_mn_major(access.a) && is_mn_major(access.b)) (problem.m < problem.n ? copies.a : copies.b) = true;
  if (!copies.a && !copies.b) return copies;
  const double of_a = copies.a ? tf32_copy_ns(problem, problem.m) : 0,
               of_b = copies.b ? tf32_copy_ns(problem, problem.n) : 0;
  return of_a + of_b + rough_tf32_ns(problem) < portable_tf32_ns(problem) ? copies : Tf32Copies{};
}

}  // namespace tileon::sm90
