// The vector code of products for x86-64 processors with AVX-512 that multiply pairs of bfloat16 (BF16, beside F, BW,
// DQ and VL).
#include "cpu/tiles/variant.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif
#define TILEON_CPU_VARIANT avx512_bf16
#define TILEON_CPU_BFLOAT16
#define TILEON_CPU_WIDTH 16
#define TILEON_CPU_REGISTERS 32
#include "cpu/tiles/kernel.h"

const tileon::TileKernels tileon::kAvx512Bfloat16Kernels{"cpu_tiles_avx512_bf16", "cpu_row_avx512_bf16",
                                                         avx512_bf16::multiply, avx512_bf16::multiply_int8,
                                                         avx512_bf16::multiply_float64};
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
