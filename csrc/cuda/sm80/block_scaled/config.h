// The portable block-scaled kernels' tile table and the choice of a row: data and a pure function, compiled by any C++
// compiler.
#pragma once

#include "../../../problem.h"
#include "../../gpu.h"
#include "../config.h"

namespace tileon::sm80 {

// Every row takes every format.
struct BlockScaledRow {
  const char* name;
  TileConfig tile;
  // As in Row. The four formats differ by less than the rows do.
  float ns_per_k;
  float ns_fixed;
  float share;
};

// clang-format off
constexpr BlockScaledRow kBlockScaledRows[] = {
    // name                             family         tile m, n  k   warps  stages, group, resident   ns_per_k, ns_fixed, share
    {"sm80_block_scaled_256x128x32",    {Family::kMma, 256, 128, 32,  4, 2,  3, 8, 1},   22.0f, 13000.0f, 1.00f},
    {"sm80_block_scaled_64x128x32",     {Family::kMma,  64, 128, 32,  2, 2,  3, 8, 2},   13.0f,  6000.0f, 0.60f},
    {"sm80_block_scaled_16x128x32",     {Family::kMma,  16, 128, 32,  1, 4,  3, 8, 2},    9.0f,  3500.0f, 0.50f},
};
// clang-format on
constexpr int kBlockScaledRowCount = sizeof(kBlockScaledRows) / sizeof(kBlockScaledRows[0]);

// Why a row cannot run on this GPU; null where it can. There is no problem that a row does not take.
inline const char* why_not(const BlockScaledRow& row, const Gpu& gpu) {
  constexpr int element_bytes = 2;  // bfloat16, as multiplied
  return shared_bytes(row.tile, element_bytes) > gpu.shared_bytes_per_block
             ? "this GPU has too little shared memory for it"
             : nullptr;
}

// The row that is expected to be fastest, by index.
inline int choose(const BlockScaledProblem& problem, const Gpu& gpu) {
  int best = -1;
  double best_ns = 0;
  for (int i = 0; i < kBlockScaledRowCount; ++i) {
    if (why_not(kBlockScaledRows[i], gpu) != nullptr) continue;
    const double ns = expected_ns(kBlockScaledRows[i], problem, gpu);
    if (best < 0 || ns < best_ns) {
      best = i;
      best_ns = ns;
    }
  }
  return best;
}

}  // namespace tileon::sm80
