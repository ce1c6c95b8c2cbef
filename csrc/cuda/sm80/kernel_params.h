// What the host hands to a portable kernel.
#pragma once

#include <cstdint>

#include "../../problem.h"
#include "../tile/tile_order.h"

namespace tileon::sm80 {

struct KernelParams {
  GemmProblem problem;
  TileOrder order;
  int tiles_per_batch;  // order.count(); block index = batch * tiles_per_batch + tile
  int64_t first_batch;  // of this launch
  bool vector_stores;   // four neighbouring columns of the output can be stored at once
};

// Whether rows of the output lie so that every fourth column is aligned for four elements.
inline bool takes_vector_stores(const GemmProblem& problem) {
  const int64_t bytes = 4 * info(problem.out_dtype).bytes;
  const int64_t element = info(problem.out_dtype).bytes;
  return (problem.out.stride_n == 1 || problem.n <= 1) && problem.out.stride_m * element % bytes == 0 &&
         (problem.batch <= 1 || problem.out.stride_batch * element % bytes == 0) &&
         static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.out.data)) % bytes == 0;
}

}  // namespace tileon::sm80
