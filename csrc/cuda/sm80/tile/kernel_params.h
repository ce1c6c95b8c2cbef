// What the host hands to a portable kernel.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_problem.h"
#include "cuda/common/tile_order.h"
#include "cuda/common/vector_stores.h"

namespace tileon::sm80 {

template <typename Problem_>
struct TileParams {
  using Problem = Problem_;
  Problem problem;
  TileOrder order;
  int tiles_per_batch;  // order.count(); block index = batch * tiles_per_batch + tile
  int64_t first_batch;  // of this launch
  bool vector_stores;   // four neighbouring columns of the output can be stored at once
};
using KernelParams = TileParams<KernelProblem>;
using BlockScaledParams = TileParams<ScaledKernelProblem>;

}  // namespace tileon::sm80
