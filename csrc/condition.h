// Kernels that run or not as the data decide, without the host: the kernels that prepare the operands leave a word for
// each of their CTAs, and those behind them look whether one of the words is set.
#pragma once

#include <cstdint>

namespace tileon {

struct Condition {
  const uint32_t* words = nullptr;  // null: it always holds
  int count = 0;
  bool when_set = false;  // it holds where a word is set, or where none is

#ifdef __CUDACC__
  // Whether a word is set; collective for the CTA. Waits for the kernels before this one where that was launched as
  // their dependent (programmatic dependent launch).
  __device__ __forceinline__ bool any_set() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    uint32_t any = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) any |= words[i];
    return __syncthreads_or(static_cast<int>(any)) != 0;
  }

  __device__ __forceinline__ bool holds() const { return words == nullptr || any_set() == when_set; }
#endif
};

}  // namespace tileon
