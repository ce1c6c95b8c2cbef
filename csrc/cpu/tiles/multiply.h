// Products on CPU tensors by tiles, which are filled in cache and multiplied: of any operands, in the same order
// whatever the number of rows.
#pragma once

#include "core/problem.h"
#include "cpu/sums.h"

namespace tileon {

// `before` is null, or what becomes of the same sums besides: they are written there first. Memory: some 1 MB for each
// thread. Returns the name of what ran. TILEON_CPU_VECTORS=baseline|avx2|avx512|avx512_bf16 asks for vector code that
// is no wider.
const char* multiply_by_tiles(const Problem& problem, const FinishedSums& finished, const FinishedSums* before);

// Whether it takes the processor's instruction for pairs of bfloat16.
bool multiplies_pairs_of_bfloat16();

}  // namespace tileon
