// 8x8 matrices of 16-bit elements between shared memory and registers.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Lane l gives the address of row l % 8 (16 bytes) of matrix l / 8; register j of lane l then holds elements
// 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix j. Returns when the registers are written.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared)
               : "memory");
}

// The same with every matrix transposed on the way.
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

// The same with each matrix transposed on the way: lane i holds the elements 2 (i % 4) and 2 (i % 4) + 1 of its column
// i / 4.
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

// The same as stmatrix_x4 for two; lanes 0 to 15 name the places.
__device__ __forceinline__ void stmatrix_x2(uint32_t shared, uint32_t m0, uint32_t m1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(m0), "r"(m1) : "memory");
}

}  // namespace tileon::ptx
