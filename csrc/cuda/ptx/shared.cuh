// Loads and stores of shared memory by its 32-bit address.
#pragma once

#include <cstdint>

namespace tileon::ptx {

__device__ __forceinline__ uint32_t load_shared_4(uint32_t shared) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}

__device__ __forceinline__ double load_shared_double(uint32_t shared) {
  double value;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(shared) : "memory");
  return value;
}

__device__ __forceinline__ void store_shared(uint32_t shared, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(value) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t shared, double value) {
  asm volatile("st.shared.f64 [%0], %1;" ::"r"(shared), "d"(value) : "memory");
}

__device__ __forceinline__ void store_shared_16(uint32_t shared, const uint4& words) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

}  // namespace tileon::ptx
