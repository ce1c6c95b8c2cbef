// Bytes of two registers in any order.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Byte i of the result is the byte of (low, high) that nibble i of `selector` names: 0 to 3 in `low`, 4 to 7 in `high`.
// Plus 8, and the result's byte is eight copies of that byte's sign.
__device__ __forceinline__ uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t word;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(selector));
  return word;
}

}  // namespace tileon::ptx
