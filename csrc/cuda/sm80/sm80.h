// What the rest of the library may know of the portable kernels (any GPU from Ampere on).
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/problem.h"
#include "cuda/runtime/gpu.h"

namespace tileon::sm80 {

int config_count();
const char* config_name(int row);
// Comma-separated; float32 with allow_tf32 is tf32, two dtypes with a * between them are those of `a` and `b`.
std::string config_dtypes(int row);

// What the current device's image of these kernels was compiled for, major * 10 + minor: its own compute capability or,
// where the driver compiled it from PTX, an older one.
int image_capability();

// Why row `row` of the tile table cannot run the problem as its operands lie on this GPU; null where it can.
const char* why_not(int row, const GemmProblem& problem, const Gpu& gpu);

// The row that is expected to be fastest on a GPU. There is one for every problem.
int choose_config(const GemmProblem& problem, const Gpu& gpu);

// Whether the kernels that fetch every element by itself would take long enough for copies of the operands to pay.
bool pays_for_copies(const GemmProblem& problem, const Gpu& gpu);

// Whether the kernels read operand `operand` ([mn, k], `mn` long) faster once it lies in an aligned buffer.
bool wants_copy(const Operand& operand, int64_t mn, const GemmProblem& problem);

// Whether fp8 operands are multiplied faster as float16, which holds every fp8 number.
bool wants_widening(const GemmProblem& problem, const Gpu& gpu);

// Launches; throws std::runtime_error where CUDA refuses. The problem is not empty (k may be 0), the row supports it.
// The kernels need no memory, and take every number: no device flag is returned.
DeviceFlag run(int row, const GemmProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

// The same for block-scaled products, whose rows have a table of their own. Every row takes every format and layout of
// scales. The other backends want the same copies.
int block_scaled_config_count();
const char* block_scaled_config_name(int row);
std::string block_scaled_config_formats(int row);
const char* why_not(int row, const BlockScaledProblem& problem, const Gpu& gpu);
int choose_config(const BlockScaledProblem& problem, const Gpu& gpu);
bool wants_copy(const BlockScaledOperand& operand, int64_t rows, const BlockScaledProblem& problem);
DeviceFlag run(int row, const BlockScaledProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

}  // namespace tileon::sm80
