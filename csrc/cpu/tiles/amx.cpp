// Products by the tile registers of AMX (its parts TILE, BF16 and INT8), on x86-64 processors that have AVX-512 too.
#include "cpu/tiles/variant.h"

#ifdef TILEON_HAS_AMX
#ifdef __clang__
#pragma clang attribute push(                                                                                          \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,amx-tile,amx-bf16,amx-int8"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,amx-tile,amx-bf16,amx-int8")
#endif
#define TILEON_CPU_VARIANT amx
#define TILEON_CPU_AMX
#define TILEON_CPU_WIDTH 16
#include "cpu/tiles/amx_block.h"

const tileon::TileKernels tileon::kAmxKernels{
    "cpu_tiles_amx", "cpu_tiles_amx",   amx::multiply_by_registers, amx::multiply_int8_by_registers,
    nullptr,         tileon::kAmxBlocks};
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
