// Who has the kernels of which rows of the block-scaled table.
#pragma once

#include <type_traits>

#include "cuda/runtime/launch.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/layout/scaled_params.h"

namespace tileon::sm90 {

// Of a route's kernels.
template <Route kRoute>
using ParamsOf = std::conditional_t<is_by_encoding(kRoute), EncodingParams, ScaledParams>;

// The kernel of row `row`; null where its route is not `kRoute`. `Out`, __half or __nv_bfloat16, is what it stores
// through TMA.
template <Route kRoute, typename Out>
KernelFunction<ParamsOf<kRoute>> find_block_scaled(int row);

}  // namespace tileon::sm90
