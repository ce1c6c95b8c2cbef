// Who has the kernels of float32 products.
#pragma once

#include "../../launch_kernel.h"
#include "../kernel_params.h"

namespace tileon::sm90 {

// The kernel of row `row` of kFloat32Rows.
KernelFunction<KernelParams> find_float32(int row);

}  // namespace tileon::sm90
