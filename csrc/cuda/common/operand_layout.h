// How operands and the output lie in memory: pure functions of pointers and strides.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon {

// The dimension along which an operand's elements are adjacent.
enum class Major : int8_t {
  kK,   // row-major a, or b as the transposed view of a contiguous (n, k)
  kMn,  // row-major b, or a as the transposed view of a contiguous (k, m)
};

// Whether every output element whose column is a multiple of `columns` is aligned for a store of that many elements.
inline bool takes_vector_stores(const Problem& problem, int columns = 4) {
  const int64_t bytes = columns * info(problem.out_dtype).bytes;
  const int64_t element = info(problem.out_dtype).bytes;
  return (problem.out.stride_n == 1 || problem.n <= 1) && problem.out.stride_m * element % bytes == 0 &&
         (problem.batch <= 1 || problem.out.stride_batch * element % bytes == 0) &&
         static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.out.data)) % bytes == 0;
}

}  // namespace tileon
