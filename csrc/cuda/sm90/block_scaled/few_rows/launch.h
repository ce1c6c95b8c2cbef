// Launches the kernels for few rows.
#pragma once

#include <cuda_runtime_api.h>

#include "../../../../problem.h"
#include "../../../gpu.h"

namespace tileon::sm90 {

// By tile kFewRowsTiles[tile]; k may be 0.
void run_few_rows(int tile, const BlockScaledProblem& problem, const Gpu& gpu, cudaStream_t stream);

}  // namespace tileon::sm90
