// What the host hands to a portable kernel, and what a CTA makes of it: whether it runs at all, and which part of the
// output it and its warps compute.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_problem.h"
#include "cuda/common/tile_order.h"
#include "cuda/ptx/sync.cuh"
#include "cuda/runtime/gpu.h"
#include "cuda/sm80/heuristics/config.h"

namespace tileon::sm80 {

template <typename Problem_>
struct TileParams {
  using Problem = Problem_;
  Problem problem;
  TileOrder order;
  int tiles_per_batch;  // order.count(); block index = batch * tiles_per_batch + tile
  int64_t first_batch;  // this launch's first
  bool vector_stores;   // four neighbouring columns of the output can be stored at once
};
using KernelParams = TileParams<KernelProblem>;
using BlockScaledParams = TileParams<ScaledKernelProblem>;

// Whether a word of the flag is set; all threads of the CTA take part. A kernel with a flag may have been launched
// while the kernels that write the flag still run: it waits for them.
__device__ __forceinline__ bool any_set(const DeviceFlag& flag) {
  ptx::grid_dependency_wait();
  uint32_t any = 0;
  for (int i = static_cast<int>(threadIdx.x); i < flag.count; i += static_cast<int>(blockDim.x)) any |= flag.words[i];
  return __syncthreads_or(static_cast<int>(any)) != 0;
}

// Whether the product is computed at all (core/problem.h).
__device__ __forceinline__ bool holds(const DeviceFlag& flag) {
  return flag.words == nullptr || any_set(flag) == flag.when_set;
}

// Whether the architecture that is being compiled for has this much shared memory for a CTA, and the instructions that
// came with `kCapability`. Where it has not, `why_not` never lets the kernel run, and its body is left out.
template <int kSharedBytes, int kCapability = 80>
__device__ constexpr bool fits_this_architecture() {
#ifdef __CUDA_ARCH__
  return kSharedBytes <= shared_limit(__CUDA_ARCH__ / 10) && kCapability <= __CUDA_ARCH__ / 10;
#else
  return true;
#endif
}

struct CtaTile {
  int64_t batch;
  int64_t m_begin;  // where the CTA's tile begins
  int64_t n_begin;
  int warp_m;  // where this warp's part of the tile begins
  int warp_n;
  int k_blocks;  // in all of k

  template <typename Params>
  __device__ __forceinline__ CtaTile(const Params& params, const TileConfig& config) {
    batch = params.first_batch + blockIdx.x / params.tiles_per_batch;
    const TileCoordinate tile = params.order.at(blockIdx.x % params.tiles_per_batch);
    m_begin = static_cast<int64_t>(tile.m) * config.tile_m;
    n_begin = static_cast<int64_t>(tile.n) * config.tile_n;
    const int warp = threadIdx.x / 32;
    warp_m = warp % config.warps_m * config.warp_m();
    warp_n = warp / config.warps_m * config.warp_n();
    k_blocks = static_cast<int>((params.problem.k + config.block_k - 1) / config.block_k);
  }
};

}  // namespace tileon::sm80
