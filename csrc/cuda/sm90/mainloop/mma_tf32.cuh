// A consumer warpgroup's main loop over tf32 of which one operand is mn-major. wgmma finds 32-bit elements in shared
// memory along k alone, so the mn-major operand has wgmma's rows, and the consumers read these into registers, which
// transposes them, while the tensor core multiplies the stage before.
#pragma once

#include <cstdint>

#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class MnMajorRowsMainLoop {
  using Rows = typename Kernel::RowsTile;
  using Columns = typename Kernel::ColumnsTile;
  static constexpr int kSteps = Columns::steps;
  static constexpr int kStepK = kMmaKBytes / kTf32Bytes;
  using Fragments = uint32_t[kSteps][4];
  static_assert(Rows::major == Major::kMn && Columns::major == Major::kK && Kernel::row_blocks == 1 &&
                !Kernel::ping_pong);

 public:
  // As PlainMainLoop's. Two stages' fragments take turns.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t rows = Kernel::rows_offset + place_of(first_row);
    Fragments even, odd;
    int previous = -1;
    const auto multiply_one = [&](Fragments& fragments, int accumulate) {
      pipeline.wait_until_full(at);
      load(pipeline.data(at.stage) + rows, fragments);
      issue(pipeline.data(at.stage), fragments, accumulate, sums);
      ptx::wgmma_wait<1>();  // the fragments before these are free, and so is their stage
      if (elected && previous >= 0) pipeline.release(previous);
      previous = at.stage;
      at.advance(pipeline.stages());
    };
    multiply_one(even, 0);
    int left = blocks - 1;
#pragma unroll 1
    for (; left >= 2; left -= 2) {
      multiply_one(odd, 1);
      multiply_one(even, 1);
    }
    if (left == 1) multiply_one(odd, 1);
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
  }

 private:
  // Where this thread's first number lies in a tile of rows: row lane / 4 of the warp's, k lane % 4.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32, k = lane % 4;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    const int in_panel = row % Rows::panel, chunk = in_panel * kTf32Bytes / kChunkBytes ^ k;
    return row / Rows::panel * Rows::panel_bytes + k * kLineBytes + chunk * kChunkBytes +
           in_panel * kTf32Bytes % kChunkBytes;
  }

  // A step's numbers are those of this thread's row and of the eighth row behind it, at its k and at the fourth k
  // behind. The chunks of a line are exchanged by the line's number: a row and a k further on are bits of that.
  static __device__ __forceinline__ void load(uint32_t first, Fragments& fragments) {
    constexpr uint32_t kEighthRow = 8 * kTf32Bytes, kFourthK = 4 * kChunkBytes;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t lines = step * kStepK * kLineBytes;
      fragments[step][0] = ptx::load_shared_4(first + lines);
      fragments[step][1] = ptx::load_shared_4((first ^ kEighthRow) + lines);
      fragments[step][2] = ptx::load_shared_4((first ^ kFourthK) + lines + 4 * kLineBytes);
      fragments[step][3] = ptx::load_shared_4((first ^ kFourthK ^ kEighthRow) + lines + 4 * kLineBytes);
    }
  }

  static __device__ __forceinline__ void issue(uint32_t stage, const Fragments& fragments, int accumulate,
                                               typename Kernel::Sums& sums) {
    const uint64_t columns = Columns::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k8<Kernel::columns>(sums[0], fragments[step], columns + Columns::offset(0, step) / 16,
                                        step > 0 ? 1 : accumulate);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
