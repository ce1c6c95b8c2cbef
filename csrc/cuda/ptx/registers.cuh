// A warpgroup's registers (sm_90a): how many each of its threads has. All four warps take part.
#pragma once

namespace tileon::ptx {

// Gives registers back; more than kCount must not be in use.
template <int kCount>
__device__ __forceinline__ void release_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Waits until there are as many.
template <int kCount>
__device__ __forceinline__ void acquire_registers() {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace tileon::ptx
