// A CTA's shared memory: how it is had, loads and stores of it by its 32-bit address, and 8x8 matrices of 16-bit
// elements between it and registers.
#pragma once

#include <cstdint>

namespace tileon::ptx {

extern __shared__ __align__(128) unsigned char aligned_to_128[];
extern __shared__ __align__(1024) unsigned char aligned_to_1024[];

// The CTA's dynamic shared memory: `DynamicShared<kAlignment>{}.begin`. An aggregate and no function: nvcc folds
// offsets into an address before it inlines, so that with a call the kernels come out otherwise. Two plain arrays: nvcc
// loses the alignment of a variable template.
template <int kAlignment>
struct DynamicShared {
  static_assert(kAlignment == 128 || kAlignment == 1024);
  unsigned char* begin = kAlignment == 128 ? aligned_to_128 : aligned_to_1024;
};

// The CTA's static shared object of type T, which nobody initializes: one for each type and kernel, so whoever asks for
// the same type in a kernel gets the same object.
template <typename T>
__device__ __forceinline__ T& static_shared() {
  __shared__ T object;
  return object;
}

__device__ __forceinline__ uint32_t load_shared_4(uint32_t shared) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}

__device__ __forceinline__ uint32_t load_shared_1(uint32_t shared) {
  uint32_t byte;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(shared) : "memory");
  return byte;
}

// Loads kWords words: two, aligned to eight bytes, or a multiple of four, aligned to sixteen.
template <int kWords>
__device__ __forceinline__ void load_shared_words(uint32_t (&words)[kWords], uint32_t shared) {
  static_assert(kWords == 2 || kWords % 4 == 0);
  if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(shared) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                   : "r"(shared + i * 4)
                   : "memory");
  }
}

__device__ __forceinline__ float4 load_shared_float4(uint32_t shared) {
  float4 values;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "r"(shared)
               : "memory");
  return values;
}

__device__ __forceinline__ double load_shared_double(uint32_t shared) {
  double value;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(shared) : "memory");
  return value;
}

__device__ __forceinline__ void store_shared_1(uint32_t shared, uint32_t byte) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(shared), "r"(byte) : "memory");
}

__device__ __forceinline__ void store_shared_4(uint32_t shared, uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
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

// ---- matrices ----

// Lane l gives the address of row l % 8 (16 bytes) of matrix l / 8; register j of lane l then holds elements
// 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix j. Returns when the registers are written.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// ldmatrix_x4 with every matrix transposed on the way.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// sm_90: stores four 8x8 matrices of 16-bit elements. Lane i names the place of row i % 8 of matrix i / 8; of each
// matrix, lane i holds the elements 2 (i % 4) and 2 (i % 4) + 1 of row i / 4.
__device__ __forceinline__ void stmatrix_x4(uint32_t shared, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

// stmatrix_x4 with each matrix transposed on the way: lane i holds the elements 2 (i % 4) and 2 (i % 4) + 1 of its
// column i / 4.
__device__ __forceinline__ void stmatrix_x4_transposed(uint32_t shared, uint32_t m0, uint32_t m1, uint32_t m2,
                                                       uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

__device__ __forceinline__ void stmatrix_x2_transposed(uint32_t shared, uint32_t m0, uint32_t m1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(m0), "r"(m1)
               : "memory");
}

// stmatrix_x4 of two matrices; lanes 0 to 15 name the places.
__device__ __forceinline__ void stmatrix_x2(uint32_t shared, uint32_t m0, uint32_t m1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(m0), "r"(m1) : "memory");
}

}  // namespace tileon::ptx
