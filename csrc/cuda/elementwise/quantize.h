// What the rest of the library may know of the kernels that quantize, dequantize and move scales. One launch each.
#pragma once

#include <cuda_runtime_api.h>

#include "core/quantize_problem.h"

namespace tileon {

// Problems may be empty. Throw std::runtime_error where CUDA refuses.
void run_quantize(const QuantizeProblem& problem, cudaStream_t stream);
void run_dequantize(const DequantizeProblem& problem, cudaStream_t stream);
void run_scale_pack(const ScalePackProblem& problem, cudaStream_t stream);

}  // namespace tileon
