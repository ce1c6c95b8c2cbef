// Who has the kernels of float32 products.
#pragma once

namespace tileon::sm90 {

// The kernel of row `row` of kFloat32Rows, a __global__ function of KernelParams.
const void* find_float32(int row);

}  // namespace tileon::sm90
