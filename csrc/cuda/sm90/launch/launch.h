// The one place that launches a Hopper kernel.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/runtime/launch.h"
#include "cuda/sm90/heuristics/dense.h"

namespace tileon::sm90 {

// A kernel, and on which devices it may have its shared memory already (a bit a device).
template <typename Params>
struct Kernel {
  KernelFunction<Params> function = nullptr;
  std::atomic<uint64_t> allowed{0};
};

// Whether TILEON_PDL lets a kernel start while the one before it in the stream still runs: all of them wait for it
// before they touch memory.
bool use_dependent_launch();

// A column of the grid is a cluster. A kernel that takes more shared memory than any may have is given as Kernel.
template <typename Params>
void launch(KernelFunction<Params> kernel, dim3 grid, int threads, int shared_bytes, const Params& params,
            cudaStream_t stream) {
  launch_kernel("launching a Hopper kernel",
                {.grid = grid,
                 .threads = threads,
                 .stream = stream,
                 .shared_bytes = shared_bytes,
                 .cluster = dim3(1, grid.y),
                 .may_overlap = use_dependent_launch()},
                kernel, params);
}

template <typename Params>
void launch(Kernel<Params>& kernel, dim3 grid, int threads, int shared_bytes, const Params& params,
            cudaStream_t stream) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel.function), kSmemLimit, kernel.allowed);
  launch(kernel.function, grid, threads, shared_bytes, params, stream);
}

}  // namespace tileon::sm90
