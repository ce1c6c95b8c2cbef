// Who launches which rows: one function for each pair of dtypes and of majors, instantiated in instances/.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"
#include "cuda/sm80/loaders/operand_access.h"

namespace tileon::sm80 {

// Launches row `row` of the table; false where the row has no kernel for this dtype. Both elements are __half,
// __nv_bfloat16 or float (tf32), or each is __nv_fp8_e4m3 or __nv_fp8_e5m2.
template <typename ElementA, Major kMajorA, Major kMajorB, typename ElementB = ElementA>
bool run_mma(int row, const Problem& problem, cudaStream_t stream);

// The same for fp8 operands of any kind and the gather rows.
bool run_gather_float8(int row, const Problem& problem, cudaStream_t stream);

// The same for the SIMT rows and those of few rows (float32), and the float64 rows.
bool run_simt(int row, const Problem& problem, cudaStream_t stream);
bool run_skinny(int row, const Problem& problem, cudaStream_t stream);
bool run_dmma(int row, const Problem& problem, cudaStream_t stream);

}  // namespace tileon::sm80
