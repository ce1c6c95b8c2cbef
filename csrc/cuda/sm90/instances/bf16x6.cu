// The kernels of every row of kBf16x6Configs. Outputs of bfloat16 are what they store through TMA.
#include "cuda/sm90/registry/bf16x6.h"

#include <cuda_bf16.h>

#include <utility>

#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/kernels/cluster_split_k.cuh"
#include "cuda/sm90/kernels/persistent.cuh"

namespace tileon::sm90 {
namespace {

template <int kRow>
KernelFunction<KernelParams> float32_kernel() {
  constexpr TileConfig config = kBf16x6Configs[kRow].tile;
  using Kernel = KernelTypes<config, Bf16x3, Major::kK, Major::kK, Unscaled<__nv_bfloat16>>;
  if constexpr (persistent(config)) {
    return &gemm<Kernel>;
  } else {
    return &split_k<Kernel>;
  }
}

template <int... kRow>
KernelFunction<KernelParams> find_float32(int row, std::integer_sequence<int, kRow...>) {
  KernelFunction<KernelParams> found = nullptr;
  static_cast<void>(((row == kRow && (found = float32_kernel<kRow>(), true)) || ...));
  return found;
}

}  // namespace

KernelFunction<KernelParams> find_float32(int row) {
  return find_float32(row, std::make_integer_sequence<int, kBf16x6ConfigCount>());
}

}  // namespace tileon::sm90
