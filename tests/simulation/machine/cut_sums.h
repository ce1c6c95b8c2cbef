// Sums as Hopper's tensor cores cut them, in place of float32 sums in the order of k: the bits that an H200 makes
// (tests/recorded_bits.py).
#pragma once

#include "machine.h"

namespace tileon::simulation {

// Whether wgmma and mma compute so; false at first, for it takes longer.
extern bool sums_are_cut;

// One instruction's sum of `sum` and `count` products of elements a[i * a_step] and b[i * b_step], widened from these
// types.
float cut_sum(Type a_type, const float* a, int a_step, Type b_type, const float* b, int b_step, int count, float sum);

// The same of mma, whose elements lie side by side. Hopper has no mma of fp8: ptxas makes it of two of float16.
float cut_sum_of_mma(Type a_type, const float* a, Type b_type, const float* b, int count, float sum);

}  // namespace tileon::simulation
