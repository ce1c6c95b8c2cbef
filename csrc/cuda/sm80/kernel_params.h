// What the host hands to a portable kernel.
#pragma once

#include <cstdint>

#include "../../problem.h"
#include "../output/vector_stores.h"
#include "../tile/tile_order.h"

namespace tileon::sm80 {

struct KernelParams {
  GemmProblem problem;
  TileOrder order;
  int tiles_per_batch;  // order.count(); block index = batch * tiles_per_batch + tile
  int64_t first_batch;  // of this launch
  bool vector_stores;   // four neighbouring columns of the output can be stored at once
};

}  // namespace tileon::sm80
