// Codes of 8 bits in a stage, as a consumer reads them for wgmma's rows: what the decoders of such codes have in common
// (codes_decoder.cuh, mxfp8_decoder.cuh).
#pragma once

#include <cstdint>

#include "cuda/common/swizzle.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/mma_decoded_weight.cuh"

namespace tileon::sm90 {

// Whether codes of e4m3 that were converted to bfloat16 were NaN, which becomes a number there.
template <bool kMayMeet>
struct MetNaN {
  uint32_t carried = 0;  // a magnitude of 0x7f, NaN, alone reaches the bit above the magnitude

  // Two pairs of moved codes (move_pair_e4m3).
  __device__ __forceinline__ void look_at(uint32_t first, uint32_t second) {
    if constexpr (kMayMeet) carried |= (first + 0x00100010) | (second + 0x00100010);
  }
  // Of a row, whose codes the four lanes have that hold its sums.
  __device__ __forceinline__ bool in_row() const {
    uint32_t all = carried;
    all |= __shfl_xor_sync(0xffffffffu, all, 1);
    all |= __shfl_xor_sync(0xffffffffu, all, 2);
    return (all & 0x08000800) != 0;
  }
};

// The codes that a thread has of a part of a stage.
template <typename Kernel>
class StageCodes {
  using TileB = typename Kernel::TileB;
  static constexpr int kSteps = DecodedPart<Kernel>::steps;
  static_assert(TileB::line_bytes == Kernel::TileA::steps * kChunkBytes, "a chunk is a step's codes of a row");

 public:
  __device__ __forceinline__ explicit StageCodes(int first_row) : place_(Kernel::rows_offset + place_of(first_row)) {}

  __device__ __forceinline__ void load(uint32_t stage, int part) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pairs_[step][i] = ptx::load_shared_2(stage + (place_ ^ (part * kSteps + step) * kChunkBytes) +
                                             i % 2 * kEighthRow + i / 2 * 8);
  }

  // The two codes, in the lower bytes, that become fragment `i` of step `step`.
  __device__ __forceinline__ uint32_t pair(int step, int i) const { return pairs_[step][i]; }

  // NaN for the sums of rows that met one.
  template <typename RowNaN>
  static __device__ __forceinline__ void put_nan(const RowNaN (&nan)[2], typename Kernel::Sums& sums) {
    const bool in_rows[2] = {nan[0].in_row(), nan[1].in_row()};
    if (!in_rows[0] && !in_rows[1]) return;
#pragma unroll
    for (int i = 0; i < Kernel::columns / 2; ++i)
      if (in_rows[i / 2 % 2]) sums[0][i] = __int_as_float(0x7fffffff);
  }

 private:
  static constexpr uint32_t kEighthRow = 8 * TileB::line_bytes;

  // Where this thread's first pair of codes lies in a stage: k 2 (lane % 4). TMA exchanges the chunks of a row by the
  // number of its line of 128 bytes.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    constexpr int rows_of_line = kLineBytes / TileB::line_bytes;
    return row * TileB::line_bytes + row / rows_of_line % Kernel::TileA::steps * kChunkBytes + lane % 4 * 2;
  }

  uint32_t place_;
  uint32_t pairs_[kSteps][4];
};

}  // namespace tileon::sm90
