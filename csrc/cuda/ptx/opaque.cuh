// No instructions: values that the compiler cannot see through, or move.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// `value`, of which nothing is known before this point: what follows from it is worked out behind it.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// What is done to `value` before this point is done before the instructions of this folder that follow, and what is
// done to it behind this point, behind those that came before.
__device__ __forceinline__ void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }

}  // namespace tileon::ptx
