// Warp-wide matrix products.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace tileon::ptx {

// d += a b with float32 accumulators, a 16 x K, b K x 8. K is 32 bytes of elements: 32 of fp8 (sm_89), 16 of float16 or
// bfloat16, 8 of tf32. Fragment layouts: PTX ISA, "mma.m16n8k32", "mma.m16n8k16", "mma.m16n8k8".
template <typename ElementA, typename ElementB = ElementA>
__device__ __forceinline__ void mma_m16n8(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

// No function can put the names into the instruction's text. float stands for tf32 here: the registers hold what
// float_to_tf32 returned.
#define TILEON_MMA(A, B, SHAPE, NAMES)                                                                             \
  template <>                                                                                                      \
  __device__ __forceinline__ void mma_m16n8<A, B>(float(&d)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1) { \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." NAMES                                                   \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                            \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
  }
TILEON_MMA(__half, __half, "m16n8k16", "f16.f16")
TILEON_MMA(__nv_bfloat16, __nv_bfloat16, "m16n8k16", "bf16.bf16")
TILEON_MMA(float, float, "m16n8k8", "tf32.tf32")
TILEON_MMA(__nv_fp8_e4m3, __nv_fp8_e4m3, "m16n8k32", "e4m3.e4m3")
TILEON_MMA(__nv_fp8_e4m3, __nv_fp8_e5m2, "m16n8k32", "e4m3.e5m2")
TILEON_MMA(__nv_fp8_e5m2, __nv_fp8_e4m3, "m16n8k32", "e5m2.e4m3")
TILEON_MMA(__nv_fp8_e5m2, __nv_fp8_e5m2, "m16n8k32", "e5m2.e5m2")
#undef TILEON_MMA

// Rounds to nearest, ties away: the tensor core itself would cut the low 13 bits off, which biases sums.
__device__ __forceinline__ uint32_t float_to_tf32(uint32_t float_bits) {
  uint32_t tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(__uint_as_float(float_bits)));
  return tf32;
}

// d += a b in float64 with a 16 x 4, b 4 x 8. Lane l gives a's rows l / 4 and l / 4 + 8 in column l % 4, and b's row l
// % 4 in column l / 4; it holds d's columns 2 (l % 4) and 2 (l % 4) + 1 in row l / 4, then in row l / 4 + 8. One
// instruction from sm_90 on, two halves of eight rows before.
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
