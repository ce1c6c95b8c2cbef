// Who has the kernels of which rows of the block-scaled table.
#pragma once

#include "config.h"

namespace tileon::sm90 {

// The kernel of row `row`, whose route is `kRoute`: a __global__ function of ScaledParams or, where the data decide,
// of FormParams. `Out`, __half or __nv_bfloat16, is what it stores through TMA.
template <Route kRoute, typename Out>
const void* find_block_scaled(int row);

}  // namespace tileon::sm90
