// The portable block-scaled kernels' tile table and the choice of a row: data and a pure function, compiled by any C++
// compiler.
#pragma once

#include "core/problem.h"
#include "cuda/runtime/gpu.h"
#include "cuda/sm80/heuristics/dense.h"

namespace tileon::sm80 {

// Which formats meet, in the order of a row's costs.
enum class Pairing : int8_t { kNvfp4, kMxfp4, kMxfp8, kE4M3E2M1, kE2M1E4M3 };
constexpr int kPairingCount = 5;

inline Pairing pairing_of(const Problem& problem) {
  if (problem.b.scale.type == ScaleType::kE4M3) return Pairing::kNvfp4;
  const bool a_is_e4m3 = problem.a.dtype == DType::kFloat8E4M3, b_is_e4m3 = problem.b.dtype == DType::kFloat8E4M3;
  if (a_is_e4m3 == b_is_e4m3) return a_is_e4m3 ? Pairing::kMxfp8 : Pairing::kMxfp4;
  return a_is_e4m3 ? Pairing::kE4M3E2M1 : Pairing::kE2M1E4M3;
}

// Every row takes every pairing. Where the operands differ, the tile's long side is best where the shorter elements
// are: a thread then has a whole block of e2m1 and half a one of e4m3 (ChunkOf).
struct BlockScaledRow {
  const char* name;
  TileConfig tile;
  // As in Cost, for each pairing. From an H200's times of every row at eight sizes; of e2m1 times e4m3 by symmetry.
  float ns_per_k[kPairingCount];
  float ns_fixed;
  float share;
};

// clang-format off
constexpr BlockScaledRow kBlockScaledConfigs[] = {
    // name                             family         tile m, n  k   warps  stages, group, ctas_per_sm   ns_per_k: nvfp4, mxfp4, mxfp8, mixed, mixed   ns_fixed, share
    {"sm80_block_scaled_256x128x32",    {Family::kMma, 256, 128, 32,  4, 2,  3, 8, 1},   {32.3f, 24.7f, 29.1f, 28.2f, 24.9f},   7200.0f, 1.00f},
    {"sm80_block_scaled_128x256x32",    {Family::kMma, 128, 256, 32,  2, 4,  3, 8, 1},   {32.6f, 25.0f, 27.9f, 24.9f, 28.2f},   7000.0f, 1.00f},
    {"sm80_block_scaled_64x128x32",     {Family::kMma,  64, 128, 32,  2, 2,  3, 8, 2},   {21.1f, 16.0f, 20.7f, 16.3f, 20.7f},   2100.0f, 0.60f},
    {"sm80_block_scaled_16x128x32",     {Family::kMma,  16, 128, 32,  1, 4,  3, 8, 2},   {17.5f, 17.0f, 17.9f, 14.8f, 17.9f},   2000.0f, 0.60f},
};
// clang-format on
constexpr int kBlockScaledConfigCount = sizeof(kBlockScaledConfigs) / sizeof(kBlockScaledConfigs[0]);

// Why a row cannot run on this GPU; null where it can. There is no problem that a row does not take.
inline const char* why_not(const BlockScaledRow& row, const Gpu& gpu) {
  constexpr int element_bytes = 2;  // bfloat16, as multiplied
  return shared_bytes(row.tile, element_bytes) > gpu.shared_bytes_per_block
             ? "this GPU has too little shared memory for it"
             : nullptr;
}

inline double expected_ns(const BlockScaledRow& row, const Problem& problem, const Gpu& gpu) {
  const float ns_per_k = row.ns_per_k[static_cast<int>(pairing_of(problem))];
  return expected_ns(row.tile, {ns_per_k, row.ns_fixed, row.share}, problem, gpu);
}

inline int choose_block_scaled(const Problem& problem, const Gpu& gpu) {
  return cheapest(
      kBlockScaledConfigs, [&](const BlockScaledRow& row) { return why_not(row, gpu) == nullptr; },
      [&](const BlockScaledRow& row) { return expected_ns(row, problem, gpu); });
}

}  // namespace tileon::sm80
