// The warp-wide matrix product in float64.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// d += a b with a 16 x 4, b 4 x 8. Lane l gives a's rows l / 4 and l / 4 + 8 in column l % 4, and b's row l % 4 in
// column l / 4; it holds d's columns 2 (l % 4) and 2 (l % 4) + 1 in row l / 4, then in row l / 4 + 8. One instruction
// from sm_90 on, two halves of eight rows before.
__device__ __forceinline__ void mma_m16n8k4(double (&d)[4], const double (&a)[2], double b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(b));
#else
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
                 : "d"(a[half]), "d"(b));
#endif
}

}  // namespace tileon::ptx
