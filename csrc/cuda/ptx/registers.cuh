// A warp's budget of registers, and what the compiler may know of values in them.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// How many registers each thread of a warpgroup has (sm_90a); all four warps take part. Gives registers back; more than
// kCount must not be in use.
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

// No instruction: `value`, of which nothing is known before this point: what follows from it is worked out behind it.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// No instruction: what is done to `value` before this point is done before the instructions of this folder that follow,
// and what is done to it behind this point, behind those that came before.
__device__ __forceinline__ void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }

}  // namespace tileon::ptx
