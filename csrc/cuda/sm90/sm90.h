// What the rest of the library may know of the Hopper kernels (compute capability 9.0).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "core/problem.h"
#include "cuda/runtime/gpu.h"

namespace tileon::sm90 {

int config_count();
const char* config_name(int row);
std::string config_dtypes(int row);  // comma-separated

// Why row `row` of the tile table cannot run the problem as its operands lie on this GPU; null where it can.
const char* why_not(int row, const GemmProblem& problem, const Gpu& gpu);

// Whether the library may choose the row, which errs by no more than the problem allows; rows of fast fp8 sums do
// where it has fast_accum alone.
bool may_choose(int row, const GemmProblem& problem);

// The row that is expected to be fastest; -1 where none can run the problem.
int choose_config(const GemmProblem& problem, const Gpu& gpu);

// Whether operand `operand` ([mn, k], `mn` long) needs a copy into an aligned buffer: TMA cannot read it.
bool wants_copy(const Operand& operand, int64_t mn, const GemmProblem& problem);

// Bytes of memory that a run needs besides; 0 where it needs none.
int64_t scratch_bytes(int row, const GemmProblem& problem);

// Launches; throws std::runtime_error where CUDA refuses. The problem is not empty (k may be 0), the row supports it,
// `scratch` begins at a multiple of 256 or is not needed. Returns the device flag under which the portable kernels must
// compute the product anew: none where there are no words in it.
DeviceFlag run(int row, const GemmProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

// The same for block-scaled products, whose rows have a table of their own.
int block_scaled_config_count();
const char* block_scaled_config_name(int row);
std::string block_scaled_config_formats(int row);  // comma-separated
const char* why_not(int row, const BlockScaledProblem& problem, const Gpu& gpu);
bool may_choose(int row, const BlockScaledProblem& problem);

// The row that is expected to be fastest; -1 where the problem is for the portable kernels.
int choose_config(const BlockScaledProblem& problem, const Gpu& gpu);

int64_t scratch_bytes(int row, const BlockScaledProblem& problem);

// The operands lie so that sm80::wants_copy asks for no copy.
DeviceFlag run(int row, const BlockScaledProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

// Fills a weight's buffer, for the problem's b; its m is 0. `scratch` is as long as the third one says; the first says
// why it cannot be done on this GPU, and null where it can.
const char* why_not_prepare_weight(const BlockScaledProblem& problem, const Gpu& gpu);
void prepare_weight(const BlockScaledProblem& problem, const PreparedWeight& weight, void* scratch,
                    cudaStream_t stream);
int64_t prepare_weight_scratch_bytes(const BlockScaledProblem& problem);

}  // namespace tileon::sm90
