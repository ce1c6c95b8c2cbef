// The one place that launches a portable kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "../error.h"
#include "config.h"
#include "kernel_params.h"

namespace tileon::sm80 {

constexpr int kStaticSharedLimit = 48 * 1024;  // above it a kernel needs an attribute, once on each device
constexpr int64_t kMaxBlocks = 0x7fffffff;     // of a grid's x dimension
constexpr int kMaxDevices = 64;

// Lets `kernel` have `bytes` of dynamic shared memory on the current device. `done` belongs to the kernel.
inline void allow_shared_memory(const void* kernel, int bytes, std::atomic<uint64_t>& done) {
  if (bytes <= kStaticSharedLimit) return;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  const uint64_t bit = device < kMaxDevices ? uint64_t{1} << device : 0;
  if (done.load(std::memory_order_relaxed) & bit) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "asking for shared memory");
  done.fetch_or(bit, std::memory_order_relaxed);
}

// `kKernel` is a __global__ function of KernelParams alone, `kConfig` its row of the table.
template <auto kKernel, TileConfig kConfig, int kSharedBytes>
void launch(const GemmProblem& problem, cudaStream_t stream) {
  static std::atomic<uint64_t> done{0};  // a bit a device, for this kernel
  allow_shared_memory(reinterpret_cast<const void*>(kKernel), kSharedBytes, done);
  KernelParams params{problem, tile_order(kConfig, problem.m, problem.n), 0, 0, takes_vector_stores(problem)};
  const int64_t tiles = params.order.count();
  if (tiles > kMaxBlocks) throw std::runtime_error("tileon: the output has more than 2^31 tiles");
  params.tiles_per_batch = static_cast<int>(tiles);
  const int64_t batches_at_once = kMaxBlocks / tiles;
  for (int64_t first = 0; first < problem.batch; first += batches_at_once) {
    params.first_batch = first;
    const int64_t blocks = std::min(batches_at_once, problem.batch - first) * tiles;
    kKernel<<<static_cast<unsigned>(blocks), kConfig.threads(), kSharedBytes, stream>>>(params);
    check_cuda(cudaGetLastError(), "launching a portable kernel");
  }
}

}  // namespace tileon::sm80
