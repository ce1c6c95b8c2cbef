// TF32 products: the configs, which operands each of them takes, and when they pay. Data and pure functions, compiled
// by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/cost.h"

namespace tileon::sm90 {

// TMA rounds both operands to tf32, and a stage has 32 k or 64. wgmma reads its columns along k alone. Its rows may be
// mn-major (mainloop/mma_tf32.cuh), where a consumer has 64 of them and a stage has 32 k: a's in cooperative configs,
// b's in swapped ones. The costs are estimates: the tensor cores' rate, and a tile's store at 20 bytes a nanosecond.
// clang-format off
constexpr KernelConfig kTf32Configs[] = {
    // name                              operands         family                tile m, n, k  consumers, stages, takes registers, element bytes  splits, ctas_per_sm   start, per_tile, per_k, memory_bytes
    {"sm90_tf32_128x256x32",             Operands::kTf32, {Family::kCooperative, 128, 256, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 6500.0f, 22.0f, 3700.0f}},
    {"sm90_tf32_128x224x32",             Operands::kTf32, {Family::kCooperative, 128, 224, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 5700.0f, 19.3f, 3700.0f}},
    {"sm90_tf32_128x192x32",             Operands::kTf32, {Family::kCooperative, 128, 192, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 4900.0f, 16.7f, 3700.0f}},
    {"sm90_tf32_128x160x32",             Operands::kTf32, {Family::kCooperative, 128, 160, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 4100.0f, 14.0f, 3700.0f}},
    {"sm90_tf32_128x128x32",             Operands::kTf32, {Family::kCooperative, 128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {6000.0f, 3300.0f, 11.4f, 3700.0f}},
    {"sm90_tf32_64x128x32",              Operands::kTf32, {Family::kCooperative,  64, 128, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5800.0f, 1700.0f,  6.2f, 3700.0f}},
    {"sm90_tf32_64x64x32",               Operands::kTf32, {Family::kCooperative,  64,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5600.0f,  900.0f,  4.0f, 3700.0f}},
    {"sm90_tf32_pingpong_128x192x32",    Operands::kTf32, {Family::kPingpong,    128, 192, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6500.0f,  600.0f, 16.7f, 3700.0f}},
    {"sm90_tf32_pingpong_128x160x32",    Operands::kTf32, {Family::kPingpong,    128, 160, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6500.0f,  600.0f, 14.0f, 3700.0f}},
    {"sm90_tf32_pingpong_128x128x32",    Operands::kTf32, {Family::kPingpong,    128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {6300.0f,  500.0f, 11.4f, 3700.0f}},
    {"sm90_tf32_swapped_256x128x32",     Operands::kTf32, {Family::kSwapAb,      256, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 6500.0f, 22.0f, 3700.0f}},
    {"sm90_tf32_swapped_224x128x32",     Operands::kTf32, {Family::kSwapAb,      224, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 5700.0f, 19.3f, 3700.0f}},
    {"sm90_tf32_swapped_192x128x32",     Operands::kTf32, {Family::kSwapAb,      192, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 4900.0f, 16.7f, 3700.0f}},
    {"sm90_tf32_swapped_160x128x32",     Operands::kTf32, {Family::kSwapAb,      160, 128, 32, 2, 16, true,  kTf32Bytes}, 1, 1, {6000.0f, 4100.0f, 14.0f, 3700.0f}},
    {"sm90_tf32_swapped_128x128x32",     Operands::kTf32, {Family::kSwapAb,      128, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {6000.0f, 3300.0f, 11.4f, 3700.0f}},
    {"sm90_tf32_swapped_64x128x32",      Operands::kTf32, {Family::kSwapAb,       64, 128, 32, 2, 16, false, kTf32Bytes}, 1, 1, {6000.0f, 1700.0f,  6.2f, 3700.0f}},
    {"sm90_tf32_swapped_128x64x32",      Operands::kTf32, {Family::kSwapAb,      128,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5800.0f, 1700.0f,  6.2f, 3700.0f}},
    {"sm90_tf32_swapped_64x64x32",       Operands::kTf32, {Family::kSwapAb,       64,  64, 32, 1, 16, false, kTf32Bytes}, 1, 1, {5600.0f,  900.0f,  4.0f, 3700.0f}},
};
// clang-format on
constexpr int kTf32ConfigCount = sizeof(kTf32Configs) / sizeof(kTf32Configs[0]);

// Whether a config's kernels read operands of these majors: all of them two that lie along k.
constexpr bool takes_a(const TileConfig& tile, Major a) {
  return a == Major::kK || tile.family == Family::kCooperative;
}
constexpr bool takes_b(const TileConfig& tile, Major b) { return b == Major::kK || tile.family == Family::kSwapAb; }

inline bool is_tf32(const Problem& problem) { return problem.a.dtype == DType::kFloat32 && problem.allow_tf32; }

// What the portable kernels take, roughly: a tile's k, or as many products as all SMs get done.
constexpr double kPortableTf32StartNs = 4000.0;
constexpr double kPortableTf32NsPerK = 15.3;
constexpr double kPortableTf32ProductsPerNs = 77000.0;
// Where there are few tiles they slice k; a slice has no less than so many k.
constexpr int64_t kPortableTf32SliceK = 512;
constexpr double kPortableTf32SlicesNs = 2500.0;

inline double portable_tf32_ns(const Problem& problem) {
  const double slices = kPortableTf32SlicesNs + kPortableTf32NsPerK * static_cast<double>(kPortableTf32SliceK);
  const double tile = std::min(kPortableTf32NsPerK * static_cast<double>(problem.k), slices);
  return kPortableTf32StartNs + std::max(tile, problem.products() / kPortableTf32ProductsPerNs);
}

// ---- copies, which lie along k ----

// Nanoseconds of a copy: every byte read and written once.
constexpr double kTf32CopyStartNs = 3000.0;
constexpr double kTf32CopyBytesPerNs = 2500.0;
// Products a nanosecond of the kernels of this folder.
constexpr double kTf32ProductsPerNs = 180000.0;

inline double tf32_copy_ns(const Problem& problem, int64_t mn) {
  return kTf32CopyStartNs + 2.0 * kTf32Bytes * static_cast<double>(problem.batch * mn) *
                                static_cast<double>(problem.k) / kTf32CopyBytesPerNs;
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
  const double ns = (copies.a ? tf32_copy_ns(problem, problem.m) : 0) +
                    (copies.b ? tf32_copy_ns(problem, problem.n) : 0) + problem.products() / kTf32ProductsPerNs;
  return ns < problem.products() / kPortableTf32ProductsPerNs ? copies : Tf32Copies{};
}

}  // namespace tileon::sm90
