// Which dimension of an operand runs along memory.
#pragma once

#include <cstdint>

namespace tileon {

// The dimension along which an operand's elements are adjacent.
enum class Major : int8_t {
  kK,   // row-major a, or b as the transposed view of a contiguous (n, k)
  kMn,  // row-major b, or a as the transposed view of a contiguous (k, m)
};

}  // namespace tileon
