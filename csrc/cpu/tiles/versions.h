// Which version of the code for blocks this processor runs. TILEON_CPU_VECTORS=baseline|avx2|avx512|avx512_bf16|amx
// asks for none that is wider.
#pragma once

#include "core/problem.h"
#include "cpu/tiles/block.h"

namespace tileon {

// The vector code, which takes every product.
const TileKernels& vector_kernels();

// AMX's registers where they take the product, else the vector code.
const TileKernels& kernels_of(const Problem& problem, bool is_batch_invariant);

// Whether the vector code's products of float32 and float64 take less time than ATen's (cpu/choice.h).
bool has_fast_tiles();

// Whether the vector code takes the processor's instruction for pairs of bfloat16.
bool multiplies_pairs_of_bfloat16();

}  // namespace tileon
