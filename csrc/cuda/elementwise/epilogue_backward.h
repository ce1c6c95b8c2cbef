// What the rest of the library may know of the kernels that take a gradient through bias and activation.
#pragma once

#include <cuda_runtime_api.h>

#include "core/epilogue_backward.h"

namespace tileon {

// Bytes of GPU memory that run_epilogue_backward needs besides: the sums of the rows' shares, none without grad_bias.
int64_t epilogue_backward_workspace(const EpilogueBackwardProblem& problem, int sm_count);

// The same bits on every run. Problems may be empty. Throws std::runtime_error where CUDA refuses.
void run_epilogue_backward(const EpilogueBackwardProblem& problem, void* workspace, int sm_count, cudaStream_t stream);

}  // namespace tileon
