// Who has the kernels of which rows: one function for each dtype and pair of majors, instantiated in the families'
// instances/.
#pragma once

#include "cuda/common/kernel_choice.h"
#include "cuda/runtime/launch.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// The kernel of row `row`; null where this family has none of that row.
// `Element` is __half or __nv_bfloat16.
template <typename Element, Major kMajorA, Major kMajorB>
KernelFunction<KernelParams> find_gemm(int row);
template <typename Element, Major kMajorA, Major kMajorB>
KernelFunction<KernelParams> find_split_k(int row);

}  // namespace tileon::sm90
