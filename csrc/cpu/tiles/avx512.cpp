// The vector code of products for x86-64 processors with AVX-512 (its parts F, BW, DQ and VL).
#include "cpu/tiles/variant.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif
#define TILEON_CPU_VARIANT avx512
#define TILEON_CPU_WIDTH 16
#define TILEON_CPU_REGISTERS 32
#include "cpu/tiles/kernel.h"

const tileon::TileKernels tileon::kAvx512Kernels{"cpu_tiles_avx512", "cpu_row_avx512", avx512::multiply,
                                                 avx512::multiply_int8, avx512::multiply_float64};
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
