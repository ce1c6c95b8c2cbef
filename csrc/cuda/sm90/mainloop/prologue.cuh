// How a CTA starts: its first load goes out as early as can be, and what else there is to set up is shared out over the
// warps and runs during_last_product. Most of a small product's time passes before its first data are there.
#pragma once

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// This thread's warp, in a form that the compiler knows to be the same in all lanes: branches on it are uniform.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x / 32), 0); }

// Returns when the pipeline can be used. `start_producer` is called by the producer's warp: where its first load lies,
// no other warp shall wait to find out.
template <typename Kernel, typename StartProducer>
__device__ __forceinline__ void start(const KernelParams& params, const Pipeline& pipeline, int warp,
                                      const StartProducer& start_producer) {
  if (warp == Kernel::producer_warp) start_producer();
  if (warp == 0 && ptx::elect_one()) {
    ptx::prefetch_tensor_map(params.map_a);
    ptx::prefetch_tensor_map(params.map_b);
    pipeline.init_empty(Kernel::consumers_of_a_stage);
    if (params.store_by_tma) ptx::prefetch_tensor_map(params.map_out);
  }
  if (warp == 1 && ptx::elect_one()) pipeline.init_full(1, pipeline.stages());
  __syncthreads();
  ptx::grid_dependency_launch();
}

}  // namespace tileon::sm90
