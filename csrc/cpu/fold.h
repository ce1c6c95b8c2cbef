// The folds of operands on the CPU (core/fold.h): a first pass finds each row's power of two, and decoding does the
// rest.
#pragma once

#include <cstdint>
#include <memory>

#include "core/problem.h"

namespace tileon {

// Of an operand with e8m0 scales: a power for each row.
std::unique_ptr<int16_t[]> fold_powers(const Operand& operand, int64_t rows, int64_t k);

}  // namespace tileon
