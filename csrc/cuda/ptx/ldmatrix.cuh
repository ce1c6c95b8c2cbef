// Four 8x8 matrices of 16-bit elements from shared memory, one 32-bit register a matrix and thread.
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

}  // namespace tileon::ptx
