// Blocks by AMX's tile registers, emulated, with codes decoded by tables, on processors that have AVX-512 with VBMI.
#include "cpu/tiles/decode_exactly.cpp"
#include "cpu/tiles/variant.h"

#ifdef TILEON_HAS_AMX
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "cpu/dequantize_row.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")
#endif
#define TILEON_CPU_VARIANT emulated
#define TILEON_CPU_WIDTH 16
#include "cpu/tiles/amx_block.h"

#include "amx_block_checks.h"

int checked() { return check_blocks("amx_block_by_tables"); }
#ifdef __clang__
#pragma clang attribute pop
#endif

int main() {
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return checked();
  std::printf("amx_block_by_tables: this processor has no AVX-512 with VBMI\n");
  return 0;
}
#else
int main() { return 0; }
#endif
