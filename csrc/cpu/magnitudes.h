// The magnitudes of bfloat16 operands, which say whether an instruction for pairs of bfloat16 loses nothing of them.
#pragma once

#include "core/problem.h"
#include "cpu/tiles/block.h"

namespace tileon {

// Whether the products of both operands, matrices of bfloat16, are normal numbers (are_products_normal). Reads both;
// false where the elements of one are adjacent along neither dimension.
bool are_products_of_normal(const Problem& problem);

}  // namespace tileon
