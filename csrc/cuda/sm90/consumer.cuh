// A consumer warpgroup's main loop: the tensor core multiplies what lies in the ring.
#pragma once

#include "../ptx/wgmma.cuh"
#include "../tile/pipeline.cuh"
#include "kernel_types.cuh"
#include "operand_tile.h"

namespace tileon::sm90 {

// Issues the products of one stage for the rows from `first_row` on. `accumulate` of 0 overwrites the sums.
template <typename Kernel>
__device__ __forceinline__ void multiply_stage(uint32_t stage, int first_row, int accumulate,
                                               typename Kernel::Sums& sums) {
  using Rows = typename Kernel::RowsTile;
  using Columns = typename Kernel::ColumnsTile;
  const uint64_t rows = Rows::descriptor(stage + Kernel::rows_offset + Rows::offset(first_row, 0));
  const uint64_t columns = Columns::descriptor(stage + Kernel::columns_offset);
  ptx::wgmma_fence();  // in every stage: hoisted out of the loop, ptxas adds its own and takes the products one by one
#pragma unroll
  for (int step = 0; step < Kernel::config.block_k / kMmaK; ++step) {
#pragma unroll
    for (int block = 0; block < Kernel::row_blocks; ++block) {
      const uint64_t step_rows = rows + Rows::offset(block * 64, step) / 16;
      const uint64_t step_columns = columns + Columns::offset(0, step) / 16;
      const int step_accumulates = step == 0 ? accumulate : 1;
      if constexpr (std::is_same_v<typename Kernel::Element, Int8Pair>) {
        static_assert(Rows::major == Major::kK && Columns::major == Major::kK);
        ptx::wgmma_m64k32<Kernel::columns>(sums[block], step_rows, step_columns, step_accumulates);
      } else {
        ptx::wgmma_m64k16<typename Kernel::Element, Kernel::columns, Rows::major == Major::kMn,
                          Columns::major == Major::kMn>(sums[block], step_rows, step_columns, step_accumulates);
      }
    }
  }
  ptx::wgmma_commit();
}

// Sums `blocks` stages, at least one, from `at` on, which moves along. One stage is multiplied while the one before is
// given back. `meanwhile` is called while the last one is multiplied.
template <typename Kernel, typename Meanwhile>
__device__ __forceinline__ void multiply(const Ring& ring, RingPosition& at, int blocks, int first_row,
                                         typename Kernel::Sums& sums, const Meanwhile& meanwhile) {
  const bool elected = threadIdx.x % 128 == 0;
  ring.wait_until_full(at);
  multiply_stage<Kernel>(ring.data(at.stage), first_row, 0, sums);  // before the loop: it defines the sums
  int previous = at.stage;
  at.advance(ring.stages());
#pragma unroll 1
  for (int block = 1; block < blocks; ++block) {
    ring.wait_until_full(at);
    multiply_stage<Kernel>(ring.data(at.stage), first_row, 1, sums);
    ptx::wgmma_wait<1>();
    if (elected) ring.release(previous);
    previous = at.stage;
    at.advance(ring.stages());
  }
  meanwhile();
  ptx::wgmma_wait<0>();
  if (elected) ring.release(previous);
}

}  // namespace tileon::sm90
