// What the rest of the library may know of the kernels that quantize, dequantize, move scales, copy, expand and fold
// operands, finish sums, and take a gradient through bias and activation. Problems may be empty. All throw
// std::runtime_error where CUDA refuses.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "core/elementwise_problems.h"

namespace tileon {

// Bytes of GPU memory that run_quantize needs besides: for the largest magnitudes of parts, where one scale is for all.
int64_t quantize_workspace(const QuantizeProblem& problem);
void run_quantize(const QuantizeProblem& problem, void* workspace, cudaStream_t stream);
void run_quantize_float32(const QuantizeProblem& problem, void* workspace, cudaStream_t stream);  // run_quantize's part
void run_quantize_nvfp4_rows(const Nvfp4RowsProblem& problem, cudaStream_t stream);

void run_dequantize(const DequantizeProblem& problem, cudaStream_t stream);
void run_scale_pack(const ScalePackProblem& problem, cudaStream_t stream);

// Of the one or two operands of a product, in one launch.
void run_operand_copies(std::span<const OperandCopyProblem> problems, cudaStream_t stream);

void run_operand_expansion(const OperandExpandProblem& problem, cudaStream_t stream);

// Of both operands of a product, in one launch; or of one of them and the factors of the other one's fold.
void run_operand_folds(const OperandFoldProblem& a, const OperandFoldProblem& b, cudaStream_t stream);
void run_fold_with_factors(const OperandFoldProblem& a, const FoldFactorsProblem& b, bool may_overlap,
                           cudaStream_t stream);  // on Hopper; may_overlap: LaunchConfig's

void run_finish(const FinishProblem& problem, cudaStream_t stream);

// Bytes of GPU memory that run_epilogue_backward needs besides: the sums of the rows' shares, none without grad_bias.
int64_t epilogue_backward_workspace(const EpilogueBackwardProblem& problem, int sm_count);

// Sums in a fixed order: every run gives the same bits.
void run_epilogue_backward(const EpilogueBackwardProblem& problem, void* workspace, int sm_count, cudaStream_t stream);

}  // namespace tileon
