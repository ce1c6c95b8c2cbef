// Who launches which formats: one function for each, instantiated in instances/.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"

namespace tileon::sm80 {

// Launches row `row` of kBlockScaledConfigs.
template <DType kA, DType kB, ScaleType kScale>
void run_block_scaled(int row, const Problem& problem, cudaStream_t stream);

}  // namespace tileon::sm80
