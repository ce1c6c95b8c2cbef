// fp8 products on Hopper, as sm90.cpp hands them on: its rows behind those of kRows.
#pragma once

#include <cuda_runtime_api.h>

#include "../../../problem.h"
#include "../../gpu.h"

namespace tileon::sm90 {

// Launches row `row` of kFloat8Rows, which supports the problem.
void run_float8(int row, const GemmProblem& problem, const Gpu& gpu, cudaStream_t stream);

}  // namespace tileon::sm90
