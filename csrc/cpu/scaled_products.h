// block_scaled_matmul on CPU tensors: tiles of the operands are decoded into cache and multiplied.
#pragma once

#include "core/problem.h"
#include "cpu/sums.h"

namespace tileon {

// The product of two scaled operands, or of a 16-bit `a` with a scaled `b`. Memory: some 0.5 MB for each thread.
// Returns the name of what ran. TILEON_CPU_VECTORS=baseline|avx2|avx512 asks for vector code that is no wider.
const char* multiply_scaled(const Problem& problem, const FinishedSums& finished);

}  // namespace tileon
