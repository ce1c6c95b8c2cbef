// 16 x 16 numbers of four bytes, and what makes rows of their columns.
#pragma once

#include "cpu/tiles/amx_registers.h"
#include "cpu/tiles/lanes.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// As a register has them.
struct Square {
  alignas(kTileAlignment) uint32_t of[kSide][kSide];

  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(of); }
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(of); }
};

// to[j][i] = from[i][j]; rows are their strides' bytes apart.
inline void turn(const uint8_t* from, int64_t stride, uint8_t* to, int64_t to_stride) {
#if TILEON_CPU_WIDTH == 16
  BitsVec x[kSide], y[kSide];
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i) x[i] = *reinterpret_cast<const BitsVec*>(from + i * stride);
#pragma GCC unroll 4
  for (int level = 0; level < 4; ++level) {
#pragma GCC unroll 8
    for (int i = 0; i < kSide / 2; ++i) {
      const BitsVec &low = x[i], &high = x[i + kSide / 2];
      y[2 * i] = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      y[2 * i + 1] = __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kSide; ++i) *reinterpret_cast<BitsVec*>(to + i * to_stride) = x[i];
#else
  for (int i = 0; i < kSide; ++i) {
    uint32_t row[kSide];
    memcpy(row, from + i * stride, sizeof(row));
    for (int j = 0; j < kSide; ++j) memcpy(to + j * to_stride + i * sizeof(row[j]), &row[j], sizeof(row[j]));
  }
#endif
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
