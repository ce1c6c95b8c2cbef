// Who has the kernels of which rows: one function for each dtype and pair of majors, instantiated in the families'
// instances/.
#pragma once

#include "../tile/major.h"

namespace tileon::sm90 {

// The kernel of row `row`, a __global__ function of KernelParams; null where this family has none of that row.
// `Element` is __half or __nv_bfloat16.
template <typename Element, Major kMajorA, Major kMajorB>
const void* find_gemm(int row);
template <typename Element, Major kMajorA, Major kMajorB>
const void* find_split_k(int row);

}  // namespace tileon::sm90
