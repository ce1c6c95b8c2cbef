// The folds of a product's operands with e8m0 scales (core/fold.h), both in one launch, a warp for a row. Bound by
// memory: a code read and a byte written.
#include <algorithm>
#include <cstdint>

#include "core/fold.h"
#include "cuda/common/folded_row.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;

// CTAs of an SM: on GPUs behind Hopper ptxas takes more than the 128 registers of a thread that four of them leave.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kCtasPerSm = 3;
#else
constexpr int kCtasPerSm = 4;
#endif

struct FoldOperand {
  ScaledKernelOperand operand;
  int64_t rows, blocks, pitch;
  uint8_t* codes;
  float* scales;
};

struct FoldParams {
  FoldOperand a, b;
};

template <int kBits>
__device__ __forceinline__ void fold_row_of(const FoldOperand& of, int64_t row) {
  FoldedRow<kBits>(of.operand, of.blocks, row)
      .fold(
          [&](int power) {
            if (threadIdx.x % 32 == 0) of.scales[row] = fold_scale(power);
          },
          [&](int64_t block, const uint4(&codes)[2]) {
            auto* to = reinterpret_cast<uint4*>(of.codes + row * of.pitch + block * kFoldBlock);
            to[0] = codes[0];
            to[1] = codes[1];
          });
}

__device__ __forceinline__ void fold_row(const FoldOperand& of, int64_t row) {
  if (of.operand.dtype == DType::kFloat4E2M1) {
    fold_row_of<4>(of, row);
  } else {
    fold_row_of<8>(of, row);
  }
}

__global__ void __launch_bounds__(kThreads, kCtasPerSm) fold(const __grid_constant__ FoldParams params) {
  const int64_t rows = params.a.rows + params.b.rows;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    if (row < params.a.rows) {
      fold_row(params.a, row);
    } else {
      fold_row(params.b, row - params.a.rows);
    }
  }
}

FoldOperand fold_operand(const OperandFoldProblem& of) {
  return {scaled_kernel_operand(of.operand), of.rows, of.k / kFoldBlock, of.pitch, of.codes, of.scales};
}

}  // namespace

void run_operand_folds(const OperandFoldProblem& a, const OperandFoldProblem& b, cudaStream_t stream) {
  constexpr int64_t kMaxCtas = 0x7fffffff;
  const int64_t ctas = std::min((a.rows + b.rows + kWarps - 1) / kWarps, kMaxCtas);
  if (ctas == 0) return;
  launch_kernel("launching a kernel that folds operands",
                {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads, .stream = stream}, &fold,
                FoldParams{fold_operand(a), fold_operand(b)});
}

}  // namespace tileon
