// Who has the kernels of which rows of the block-scaled table.
#pragma once

namespace tileon::sm90 {

// The kernel of dense row `dense_row` for prepared operands, a __global__ function of ScaledParams. `Element` is
// __nv_bfloat16 or Int8Pair, `Out`, __half or __nv_bfloat16, what it stores through TMA.
template <typename Element, typename Out>
const void* find_block_scaled(int dense_row);

}  // namespace tileon::sm90
