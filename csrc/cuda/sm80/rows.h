// Who launches which rows: one function for each dtype and pair of majors, instantiated in instances/.
#pragma once

#include <cuda_runtime_api.h>

#include "../../problem.h"
#include "operand_access.h"

namespace tileon::sm80 {

// Launches row `row` of the table; false where the row has no kernel for this dtype. `Element` is __half,
// __nv_bfloat16 or float (tf32).
template <typename Element, Major kMajorA, Major kMajorB>
bool run_mma(int row, const GemmProblem& problem, cudaStream_t stream);

// The same for the SIMT rows (float32) and the float64 rows.
bool run_simt(int row, const GemmProblem& problem, cudaStream_t stream);
bool run_dmma(int row, const GemmProblem& problem, cudaStream_t stream);

}  // namespace tileon::sm80
