// The vector code of products for any processor: SSE2 on x86-64, NEON on aarch64.
#include "cpu/tiles/variant.h"

#define TILEON_CPU_VARIANT baseline
#define TILEON_CPU_WIDTH 4
#ifdef __x86_64__
#define TILEON_CPU_REGISTERS 16
#else
#define TILEON_CPU_REGISTERS 32
#endif
#include "cpu/tiles/kernel.h"

const tileon::TileKernels tileon::kBaselineKernels{"cpu_tiles_baseline", "cpu_row_baseline", baseline::multiply,
                                                   baseline::multiply_int8, baseline::multiply_float64};
