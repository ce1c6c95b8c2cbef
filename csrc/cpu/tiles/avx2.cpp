// The vector code of products for x86-64 processors with AVX2, FMA and F16C.
#include "cpu/tiles/variant.h"

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#define TILEON_CPU_VARIANT avx2
#define TILEON_CPU_WIDTH 8
#define TILEON_CPU_REGISTERS 16
#include "cpu/tiles/kernel.h"

const tileon::TileKernels tileon::kAvx2Kernels{"cpu_tiles_avx2", "cpu_row_avx2", avx2::multiply, avx2::multiply_int8,
                                               avx2::multiply_float64};
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
