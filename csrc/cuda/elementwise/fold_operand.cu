// The folds of a product's operands with e8m0 scales (core/fold.h), both in one launch. A row has as many warps, up to
// eight, as hold all of it in registers. Bound by memory: a code read and a byte written (sm90/heuristics/scaled_cost.h
// has the rate). Of an operand whose codes a kernel folds while it multiplies the factors of blocks alone.
#include <cstdint>
#include <stdexcept>

#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/fold_factors.cuh"
#include "cuda/elementwise/fold_row.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kThreads = kFoldWarps * 32;
constexpr int kHeld = 4;       // blocks of a lane in registers
constexpr int kFewHeld = 2;    // beside factors: of few rows, whose instructions come cold
constexpr int kCtasPerSm = 3;  // which leave 80 registers a thread

struct FoldParams {
  FoldOperand a, b;
};

struct FoldWithFactorsParams {
  FoldOperand a;
  FoldedFactors b;
};

// A CTA folds as many rows as its warps make.
template <int kRowWarps, int kHeldBlocks>
__device__ __forceinline__ void fold_group(const FoldOperand& of, int64_t group) {
  const int64_t first_row = group * (kFoldWarps / kRowWarps);
  if (of.operand.dtype == DType::kFloat4E2M1) {
    fold_rows<4, kRowWarps, kHeldBlocks>(of, first_row);
  } else {
    fold_rows<8, kRowWarps, kHeldBlocks>(of, first_row);
  }
}

template <int kRowWarps>
constexpr int64_t fold_groups(int64_t rows) {
  return (rows * kRowWarps + kFoldWarps - 1) / kFoldWarps;
}

constexpr int64_t factor_groups(int64_t rows) {
  constexpr int kRows = kFoldWarps * kRowsOfWarp;
  return (rows + kRows - 1) / kRows;
}

// The rows of a first.
template <int kRowWarps>
__global__ void __launch_bounds__(kThreads, kCtasPerSm) fold(const __grid_constant__ FoldParams params) {
  const int64_t group = blockIdx.x, groups_of_a = fold_groups<kRowWarps>(params.a.rows);
  const bool is_a = group < groups_of_a;
  fold_group<kRowWarps, kHeld>(is_a ? params.a : params.b, is_a ? group : group - groups_of_a);
}

// The factors first: they take longer. A row of a has all of a CTA's warps. Hopper's kernels alone fold the other
// operand.
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    fold_with_factors(const __grid_constant__ FoldWithFactorsParams params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const int64_t group = blockIdx.x, groups_of_b = factor_groups(params.b.stride);
  if (group >= groups_of_b) return fold_group<kFoldWarps, kFewHeld>(params.a, group - groups_of_b);
  const int64_t warp = group * kFoldWarps + threadIdx.x / 32;
  const int64_t row = warp * kRowsOfWarp + threadIdx.x % kRowsOfWarp;
  if (params.b.operand.dtype == DType::kFloat4E2M1) {
    store_factors<4>(params.b, row);
  } else {
    store_factors<8>(params.b, row);
  }
#endif
}

template <typename Params>
void launch_folds(void (*kernel)(Params), int64_t ctas, const Params& params, bool may_overlap, cudaStream_t stream) {
  constexpr int64_t kMaxCtas = 0x7fffffff;
  if (ctas == 0) return;
  if (ctas > kMaxCtas) throw std::runtime_error("tileon: more than 2^31 groups of rows to fold");
  launch_kernel(
      "launching a kernel that folds operands",
      {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .stream = stream, .may_overlap = may_overlap},
      kernel, params);
}

template <int kRowWarps>
void launch(const FoldParams& params, cudaStream_t stream) {
  const int64_t ctas = fold_groups<kRowWarps>(params.a.rows) + fold_groups<kRowWarps>(params.b.rows);
  launch_folds(&fold<kRowWarps>, ctas, params, false, stream);
}

FoldOperand fold_operand(const OperandFoldProblem& of) {
  return {
      scaled_kernel_operand(of.operand), of.rows, of.k / kFoldBlock, of.pitch, of.codes, of.scales, of.is_interleaved};
}

// A packed tensor has all of its words' scales, whatever k is.
bool reads_words(const Scale& scale, int64_t blocks) {
  const ScaleStrides& strides = scale.strides;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(scale.data));
  const bool has_words = is_packed(strides) || blocks % 4 == 0;
  return has_words && strides.col == 1 &&
         (address | strides.row_block | strides.col_block | strides.row | strides.quarter) % 4 == 0;
}

FoldedFactors folded_factors(const FoldFactorsProblem& of) {
  const int64_t blocks = of.k / kFoldBlock;
  return {scaled_kernel_operand(of.operand),    of.rows, blocks, (blocks + 3) / 4, of.stride, of.factors, of.scales,
          reads_words(of.operand.scale, blocks)};
}

}  // namespace

void run_operand_folds(const OperandFoldProblem& a, const OperandFoldProblem& b, cudaStream_t stream) {
  const FoldParams params{fold_operand(a), fold_operand(b)};
  const auto holds = [&](int warps) { return params.a.blocks <= int64_t{warps} * 32 * kHeld; };
  if (holds(1)) return launch<1>(params, stream);
  if (holds(2)) return launch<2>(params, stream);
  if (holds(4)) return launch<4>(params, stream);
  launch<8>(params, stream);
}

void run_fold_with_factors(const OperandFoldProblem& a, const FoldFactorsProblem& b, bool may_overlap,
                           cudaStream_t stream) {
  const FoldWithFactorsParams params{fold_operand(a), folded_factors(b)};
  launch_folds(&fold_with_factors, params.a.rows + factor_groups(params.b.stride), params, may_overlap, stream);
}

}  // namespace tileon
