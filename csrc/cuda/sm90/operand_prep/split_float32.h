// Float32 operands to planes of bfloat16.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"

namespace tileon::sm90 {

// Fills `scratch`, as Bf16x3Scratch says, with both operands of the problem, whatever their strides. Returns the
// device flag that is set where a number is above 2^56, infinite or NaN, or is not the sum of its three parts: most of
// those below 2^-110, whose last part would be too small for bfloat16.
DeviceFlag run_split_float32(const Problem& problem, int sm_count, void* scratch, cudaStream_t stream);

}  // namespace tileon::sm90
