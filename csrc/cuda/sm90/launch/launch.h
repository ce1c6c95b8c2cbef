// From a problem and a config to a kernel's parameters, and the one place that launches a Hopper kernel.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cuda/runtime/launch.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

struct LaunchPlan {
  KernelParams params;
  Major major_a;
  Major major_b;
  int clusters;  // along the grid's x; along y the CTAs of each, as many as the config splits k
  int shared_bytes;

  dim3 grid() const { return {static_cast<unsigned>(clusters), static_cast<unsigned>(params.splits), 1}; }
};

// For kernels of this tile and `splits`, which can run the problem; the problem is not empty (k may be 0).
LaunchPlan plan_launch(Operands operands, const TileConfig& tile, int splits, const Problem& problem, const Gpu& gpu);

// A kernel, and on which devices it may have its shared memory already (a bit a device).
template <typename Params>
struct KernelHandle {
  std::atomic<KernelFunction<Params>> function = nullptr;
  std::atomic<uint64_t> allowed = 0;
};

// Whether TILEON_PDL lets a kernel start while the one before it in the stream still runs: all of them wait for it
// before they touch memory.
inline bool use_dependent_launch() {
  static const bool use = [] {
    const char* setting = std::getenv("TILEON_PDL");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return use;
}

// A column of the grid is a cluster. A kernel that takes more shared memory than any may have is given by its handle.
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
void launch(KernelHandle<Params>& kernel, dim3 grid, int threads, int shared_bytes, const Params& params,
            cudaStream_t stream) {
  const KernelFunction<Params> function = kernel.function;
  allow_shared_memory(reinterpret_cast<const void*>(function), kSmemLimit, kernel.allowed);
  launch(function, grid, threads, shared_bytes, params, stream);
}

}  // namespace tileon::sm90
