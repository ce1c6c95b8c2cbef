// The one place that launches a portable kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "cuda/runtime/launch.h"
#include "cuda/runtime/shared_memory_attribute.h"
#include "cuda/sm80/heuristics/dense.h"
#include "cuda/sm80/tile/kernel_params.h"

namespace tileon::sm80 {

constexpr int64_t kMaxBlocks = 0x7fffffff;  // of a grid's x dimension

// Whether the kernel may be launched while the one before it in the stream still runs: it waits by itself then.
inline bool is_dependent(const Problem& problem) { return problem.device_flag.words != nullptr; }

// The part of a problem that the kernel knows.
inline KernelProblem part_for(KernelFunction<KernelParams>, const Problem& problem) { return kernel_problem(problem); }
inline ScaledKernelProblem part_for(KernelFunction<BlockScaledParams>, const Problem& problem) {
  return scaled_kernel_problem(problem);
}

// `kKernel` is a __global__ function of TileParams alone, `kConfig` its row of the table.
template <auto kKernel, TileConfig kConfig, int kSharedBytes>
void launch(const Problem& problem, cudaStream_t stream) {
  static std::atomic<uint64_t> done{0};  // a bit a device, for this kernel
  allow_shared_memory(reinterpret_cast<const void*>(kKernel), kSharedBytes, done);
  TileParams params{part_for(kKernel, problem), tile_order(kConfig, problem.m, problem.n), 0, 0,
                    takes_vector_stores(problem)};
  const int64_t tiles = params.order.count();
  if (tiles > kMaxBlocks) throw std::runtime_error("tileon: the output has more than 2^31 tiles");
  params.tiles_per_batch = static_cast<int>(tiles);
  const int64_t batches_at_once = kMaxBlocks / tiles;
  for (int64_t first = 0; first < problem.batch; first += batches_at_once) {
    params.first_batch = first;
    const int64_t blocks = std::min(batches_at_once, problem.batch - first) * tiles;
    launch_kernel("launching a portable kernel",
                  {.grid = dim3(static_cast<unsigned>(blocks)),
                   .threads = kConfig.threads(),
                   .stream = stream,
                   .shared_bytes = kSharedBytes,
                   .may_overlap = is_dependent(problem)},
                  kKernel, params);
  }
}

}  // namespace tileon::sm80
