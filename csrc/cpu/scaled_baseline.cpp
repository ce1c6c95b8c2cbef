// The vector code of scaled products for any processor: SSE2 on x86-64, NEON on aarch64.
#include "cpu/scaled_variant.h"

#define TILEON_CPU_VARIANT baseline
#define TILEON_CPU_WIDTH 4
#ifdef __x86_64__
#define TILEON_CPU_REGISTERS 16
#else
#define TILEON_CPU_REGISTERS 32
#endif
#include "cpu/scaled_kernel.h"

const tileon::ScaledKernels tileon::kBaselineKernels{"cpu_scaled_tiles_baseline", "cpu_scaled_row_baseline",
                                                     baseline::multiply, baseline::multiply_int8};
