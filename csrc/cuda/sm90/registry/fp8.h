// Who has the kernels of which fp8 rows.
#pragma once

#include "cuda/runtime/launch.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// The kernel of row `row` of kFp8Configs. `A` and `B` are __nv_fp8_e4m3 or __nv_fp8_e5m2; `Out`, __half or
// __nv_bfloat16, is what it stores through TMA.
template <typename A, typename B, typename Out>
KernelFunction<KernelParams> find_float8(int row);

}  // namespace tileon::sm90
