// What a kernel does about its condition (condition.h).
#pragma once

#include <cstdint>

#include "core/device_flag.h"
#include "cuda/ptx/sync.cuh"

namespace tileon {

// Whether a word is set; collective for the CTA. Waits for the kernels before this one where that was launched as their
// dependent.
__device__ __forceinline__ bool any_set(const Condition& condition) {
  ptx::grid_dependency_wait();
  uint32_t any = 0;
  for (int i = static_cast<int>(threadIdx.x); i < condition.count; i += static_cast<int>(blockDim.x))
    any |= condition.words[i];
  return __syncthreads_or(static_cast<int>(any)) != 0;
}

__device__ __forceinline__ bool holds(const Condition& condition) {
  return condition.words == nullptr || any_set(condition) == condition.when_set;
}

}  // namespace tileon
