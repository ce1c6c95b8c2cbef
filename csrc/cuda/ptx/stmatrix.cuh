// From fragments in registers to rows in shared memory (sm_90).
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Stores four 8x8 matrices of 16-bit elements. Lane i names the place of row i % 8 of matrix i / 8; of each matrix,
// lane i holds the elements 2 (i % 4) and 2 (i % 4) + 1 of row i / 4.
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
