// Products on CPU tensors by tiles, which are filled in cache and multiplied: of any operands, in an order
// that the number of threads does not change.
#pragma once

#include "core/problem.h"
#include "cpu/sums.h"

namespace tileon {

// `before` is null, or what becomes of the same sums besides: they are written there first. is_batch_invariant: the
// order of a row's sums must not hang on the number of rows, as with AMX it may. Memory: some 2 MB for each thread.
// Returns the name of what ran.
const char* multiply_by_tiles(const Problem& problem, const FinishedSums& finished, const FinishedSums* before,
                              bool is_batch_invariant);

}  // namespace tileon
