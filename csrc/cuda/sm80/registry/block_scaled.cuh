// Every row of the block-scaled table, for one pair of formats.
#pragma once

#include <utility>

#include "cuda/sm80/block_scaled/kernel.cuh"
#include "cuda/sm80/launch/launch.cuh"
#include "cuda/sm80/registry/block_scaled.h"

namespace tileon::sm80 {

template <int kRow, DType kA, DType kB, ScaleType kScale>
void launch_block_scaled_if(int row, const Problem& problem, cudaStream_t stream) {
  if (row != kRow) return;
  constexpr TileConfig tile = kBlockScaledConfigs[kRow].tile;
  using Kernel = BlockScaledKernel<tile, kA, kB, kScale>;
  launch<&gemm_block_scaled<Kernel>, tile, Kernel::shared_bytes>(problem, stream);
}

template <DType kA, DType kB, ScaleType kScale, int... kRow>
void launch_block_scaled_one_of(std::integer_sequence<int, kRow...>, int row, const Problem& problem,
                                cudaStream_t stream) {
  (launch_block_scaled_if<kRow, kA, kB, kScale>(row, problem, stream), ...);
}

template <DType kA, DType kB, ScaleType kScale>
void run_block_scaled(int row, const Problem& problem, cudaStream_t stream) {
  launch_block_scaled_one_of<kA, kB, kScale>(std::make_integer_sequence<int, kBlockScaledConfigCount>(), row, problem,
                                             stream);
}

}  // namespace tileon::sm80
