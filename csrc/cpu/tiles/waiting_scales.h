// float32 scales that are one for all of k, and powers of two of folds: the sums are multiplied by them.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cpu/tiles/block.h"

namespace tileon {

// Whether the sums of an operand's rows have a factor.
bool has_factors(const Operand& operand);

// Sums times the factors of both operands, rounded once: in double, which hardly errs. `to` may be `sums`.
void scale_sums(const Problem& problem, const TileBlock& block, const float* sums, float* to);
void scale_sums(const Problem& problem, const TileBlock& block, const int64_t* sums, float* to);  // of codes

// Whether each number of a row of float16 or bfloat16 is of a usual size, or 0: scales of a weight may then wait.
bool is_row_moderate(const Operand& a, int64_t row, int64_t k);

}  // namespace tileon
