// The kernels of block-scaled products of few rows of a.
#pragma once

#include "cuda/sm90/registry/find.cuh"
#include "cuda/sm90/small_m/kernel.cuh"

namespace tileon::sm90 {

template <int kNumber, DType kA, DType kB, ScaleType kScale>
KernelFunction<SmallMParams> kernel_function(SmallMKernels<kA, kB, kScale>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == Operands::kCodes) {
    return &block_scaled_small_m<SmallMTypes<config.tile.tile_m, kA, kB, kScale>>;
  } else {
    return nullptr;
  }
}

}  // namespace tileon::sm90
