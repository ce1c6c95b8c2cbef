// No instruction: a value that the compiler cannot see through.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// `value`, of which nothing is known before this point: what follows from it is worked out behind it.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace tileon::ptx
