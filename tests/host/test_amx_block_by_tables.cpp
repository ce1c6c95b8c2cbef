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

#ifdef __clang__
#pragma clang attribute pop
#endif

bool has_the_vectors() {
  return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
#include "expect.h"

bool has_the_vectors() { return false; }
bool are_blocks_right() { return true; }
#endif

int main() {
  if (!has_the_vectors()) std::printf("this processor has no AVX-512 with VBMI\n");
  expect(!has_the_vectors() || are_blocks_right(), "blocks");
  return report("amx_block_by_tables");
}
