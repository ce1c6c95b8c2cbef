// Codes of 8 bits in a stage, as a consumer reads them for wgmma's rows: what the main loops that convert them have in
// common (mma_weight_codes.cuh, mma_scaled_codes.cuh).
#pragma once

#include <cstdint>

#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/operand_tile.h"

namespace tileon::sm90 {

// Whether codes of e4m3 that were converted to bfloat16 were NaN, which becomes a number there.
template <bool kMayMeet>
struct MetNaN {
  uint32_t carried = 0;  // a magnitude of 0x7f, NaN, alone reaches the top bit of its byte

  __device__ __forceinline__ void look_at(uint32_t codes) {
    if constexpr (kMayMeet) carried |= (codes & 0x7f7f7f7f) + 0x01010101;
  }
  // Of a row, whose codes the four lanes have that hold its sums.
  __device__ __forceinline__ bool in_row() const {
    uint32_t all = carried;
    all |= __shfl_xor_sync(0xffffffffu, all, 1);
    all |= __shfl_xor_sync(0xffffffffu, all, 2);
    return (all & 0x80808080) != 0;
  }
};

// The codes that a thread has of a stage, which is multiplied in two parts, of some steps of wgmma each.
template <typename Kernel>
struct StageCodes {
  using TileB = typename Kernel::TileB;
  static constexpr int kSteps = Kernel::TileA::steps, kStepsAtOnce = kSteps / 2;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong && kSteps % kStepsAtOnce == 0);
  static_assert(TileB::line_bytes == kSteps * kChunkBytes, "a chunk is a step's codes of a row");

  // This thread's codes of a part, four of a row and a step each: as wgmma's fragments want them, k and k + 1, k + 8
  // and k + 9.
  struct Codes {
    uint32_t low[kStepsAtOnce];   // of row lane / 4 of the warp's
    uint32_t high[kStepsAtOnce];  // and of the eighth row behind it
  };

  // Where this thread's first pair of codes lies in a stage: k 2 (lane % 4). TMA exchanges the chunks of a row by the
  // number of its line of 128 bytes.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    constexpr int rows_of_line = kLineBytes / TileB::line_bytes;
    return row * TileB::line_bytes + row / rows_of_line % kSteps * kChunkBytes + lane % 4 * 2;
  }

  // Of steps from `first` on.
  static __device__ __forceinline__ void load(uint32_t stage, uint32_t place, int first, Codes& codes) {
    constexpr uint32_t kEighthRow = 8 * TileB::line_bytes;
    const auto load_four = [](uint32_t from) {
      return ptx::prmt(ptx::load_shared_2(from), ptx::load_shared_2(from + 8), 0x5410);
    };
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const uint32_t from = stage + (place ^ (first + i) * kChunkBytes);
      codes.low[i] = load_four(from);
      codes.high[i] = load_four(from + kEighthRow);
    }
  }

  // NaN for the sums of rows that met one.
  template <typename RowNaN>
  static __device__ __forceinline__ void put_nan(const RowNaN (&nan)[2], typename Kernel::Sums& sums) {
    const bool in_rows[2] = {nan[0].in_row(), nan[1].in_row()};
    if (!in_rows[0] && !in_rows[1]) return;
#pragma unroll
    for (int i = 0; i < Kernel::columns / 2; ++i)
      if (in_rows[i / 2 % 2]) sums[0][i] = __int_as_float(0x7fffffff);
  }
};

}  // namespace tileon::sm90
