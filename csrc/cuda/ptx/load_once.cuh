// Global memory straight into registers, where it is wanted: a condition that hangs on other data keeps a load behind
// these, which a compiler would move ahead of them.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Keeps the address in registers: the compiler would else find it anew, by multiplications, for each load.
template <typename T>
__device__ __forceinline__ void pin(const T*& address) {
  asm("" : "+l"(address));
}

// Sixteen bytes, which L1 does not keep for another load. L2 brings the 256 bytes around them. Where it is not wanted,
// nothing is loaded and the words hold anything.
__device__ __forceinline__ uint4 load_once_16(const void* global, bool is_wanted) {
  uint4 words;
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.b32 wanted, %5, 0;\n"
      "@wanted ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
      : "l"(global), "r"(static_cast<int>(is_wanted)));
  return words;
}

// A word, which L1 keeps. Where it is not wanted, nothing is loaded and the word holds anything.
__device__ __forceinline__ uint32_t load_4(const void* global, bool is_wanted) {
  uint32_t word;
  asm volatile(
      "{\n"
      ".reg .pred wanted;\n"
      "setp.ne.b32 wanted, %2, 0;\n"
      "@wanted ld.global.nc.u32 %0, [%1];\n"
      "}"
      : "=r"(word)
      : "l"(global), "r"(static_cast<int>(is_wanted)));
  return word;
}

}  // namespace tileon::ptx
