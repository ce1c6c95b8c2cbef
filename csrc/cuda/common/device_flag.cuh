// What a kernel does about its device flag (core/device_flag.h).
#pragma once

#include <cstdint>

#include "core/device_flag.h"
#include "cuda/ptx/sync.cuh"

namespace tileon {

// Whether a word is set; collective for the CTA. Waits for the kernels before this one where that was launched as their
// dependent.
__device__ __forceinline__ bool any_set(const DeviceFlag& flag) {
  ptx::grid_dependency_wait();
  uint32_t any = 0;
  for (int i = static_cast<int>(threadIdx.x); i < flag.count; i += static_cast<int>(blockDim.x)) any |= flag.words[i];
  return __syncthreads_or(static_cast<int>(any)) != 0;
}

__device__ __forceinline__ bool holds(const DeviceFlag& flag) {
  return flag.words == nullptr || any_set(flag) == flag.when_set;
}

}  // namespace tileon
