// How wide the output can be written: a pure function of its pointer and strides.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon {

// Whether rows of the output lie so that every fourth column is aligned for four elements, or every `columns`th one for
// as many.
template <typename Problem>
inline bool takes_vector_stores(const Problem& problem, int columns = 4) {
  const int64_t bytes = columns * info(problem.out_dtype).bytes;
  const int64_t element = info(problem.out_dtype).bytes;
  return (problem.out.stride_n == 1 || problem.n <= 1) && problem.out.stride_m * element % bytes == 0 &&
         (problem.batch <= 1 || problem.out.stride_batch * element % bytes == 0) &&
         static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.out.data)) % bytes == 0;
}

}  // namespace tileon
