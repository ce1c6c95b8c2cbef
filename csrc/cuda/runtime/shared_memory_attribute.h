// The attribute without which a kernel gets no more than 48 KB of shared memory.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "cuda/runtime/error.h"

namespace tileon {

// Lets `kernel` have `bytes` of dynamic shared memory on the current device: once, as `done` remembers, which belongs
// to the kernel and has a bit a device.
inline void allow_shared_memory(const void* kernel, int bytes, std::atomic<uint64_t>& done) {
  constexpr int without_asking = 48 * 1024;
  constexpr int max_devices = 64;
  if (bytes <= without_asking) return;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  const uint64_t bit = device < max_devices ? uint64_t{1} << device : 0;
  if (done.load(std::memory_order_relaxed) & bit) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "asking for shared memory");
  done.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace tileon
