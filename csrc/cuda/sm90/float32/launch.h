// Float32 products on Hopper, as sm90.cpp hands them on: its rows behind those of fp8.
#pragma once

#include <cuda_runtime_api.h>

#include "../../../problem.h"
#include "../../gpu.h"

namespace tileon::sm90 {

// Launches row `row` of kFloat32Rows, which supports the problem. `scratch` is as long as DecomposedScratch says, and
// begins at a multiple of 256. Returns the condition under which the portable kernels must compute the product anew.
Condition run_float32(int row, const GemmProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

}  // namespace tileon::sm90
