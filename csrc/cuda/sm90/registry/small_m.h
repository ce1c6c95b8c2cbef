// Finds the kernels for few rows.
#pragma once

#include "core/block_formats.h"
#include "cuda/runtime/launch.h"
#include "cuda/sm90/small_m/params.h"

namespace tileon::sm90 {

// The kernel of kSmallMTiles[tile] for operands of these types; explicitly instantiated in instances/.
template <DType kA, DType kB, ScaleType kScale>
KernelFunction<SmallMParams> find_small_m(int tile);

}  // namespace tileon::sm90
