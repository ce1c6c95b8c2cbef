// From the sums of a product to its output: scales of rows and columns, global scale, bias, activation, one rounding.
// Bound by memory: a sum read, an element written.
#include <algorithm>
#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float scale_at(const SumScale& scale, int64_t i) {
  return scale.data == nullptr ? 1.0f : scale.data[i * scale.stride];
}

// A thread finishes a column's sums; a warp's lanes have neighbouring columns. The scales of a row and a column are
// multiplied in double: neither they nor their product are ever out of range.
__global__ void __launch_bounds__(kThreads) finish(const __grid_constant__ FinishProblem problem) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= problem.n) return;
  const auto of_column = static_cast<double>(scale_at(problem.column, column));
  const float bias = problem.epilogue.bias == nullptr ? 0.0f : load_bias<float>(problem.epilogue, column);
  const auto slope = static_cast<float>(problem.epilogue.slope);
  for (int64_t row = blockIdx.y; row < problem.m; row += gridDim.y) {
    const auto sum = static_cast<double>(problem.sums[row * problem.n + column]);
    const double factor = static_cast<double>(scale_at(problem.row, row)) * of_column;
    const float scaled = static_cast<float>(sum * factor) * scale_at(problem.global, row);
    store_as(problem.out.data, problem.out_dtype, row * problem.out.stride_m + column * problem.out.stride_n,
             activate(scaled + bias, problem.epilogue.activation, slope));
  }
}

}  // namespace

void run_finish(const FinishProblem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return;
  constexpr int64_t kMaxGridY = 65535;
  const dim3 grid(static_cast<unsigned>((problem.n + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(problem.m, kMaxGridY)));
  launch_kernel("launching a kernel that finishes sums", {.grid = grid, .threads = kThreads, .stream = stream}, &finish,
                problem);
}

}  // namespace tileon
