// Who has the kernels of float32 products.
#pragma once

#include "cuda/runtime/launch.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// The kernel of row `row` of kBf16x6Configs.
KernelFunction<KernelParams> find_float32(int row);

}  // namespace tileon::sm90
