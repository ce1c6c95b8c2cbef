// The fold of an operand with e8m0 scales (core/fold.h), a warp for a row. Bound by memory: a code read twice, the
// second time from a cache, and a byte written.
#include <algorithm>
#include <cstdint>

#include "core/fold.h"
#include "cuda/common/numbers.cuh"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32, kPerThread = 4;

struct FoldParams {
  ScaledKernelOperand operand;
  bool vectors;
  int64_t rows, k, pitch;
  uint8_t* codes;
  float* scales;
};

// Calls use(k, inside, codes, scale) for each four neighbours of a row that are this lane's.
template <int kBits, typename Use>
__device__ __forceinline__ void walk_row(const FoldParams& params, int64_t row, const Use& use) {
  const auto* scales = static_cast<const uint8_t*>(params.operand.scale);
  for (int64_t k = threadIdx.x % 32 * kPerThread; k < params.k; k += 32 * kPerThread) {
    const int inside = static_cast<int>(min(params.k - k, static_cast<int64_t>(kPerThread)));
    use(k, inside, load_four<kBits>(params.operand, row, k, inside, params.vectors),
        scales[params.operand.scale_strides.offset(row, k / 32)]);
  }
}

__device__ __forceinline__ int largest_of_warp(int value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value = max(value, __shfl_xor_sync(0xffffffff, value, lane));
  return value;
}

template <int kBits>
__global__ void __launch_bounds__(kThreads) fold(const __grid_constant__ FoldParams params) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (int64_t row = first; row < params.rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    int magnitude = kNoMagnitude;
    walk_row<kBits>(params, row, [&](int64_t, int inside, const FourCodes<kBits>& codes, uint32_t scale) {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const float number = fabsf(number_of<kBits>(codes.code(i), params.operand.dtype));
        if (i < inside && number > largest) largest = number;  // NaN is not
      }
      magnitude = max(magnitude, fold_magnitude(largest, scale));
    });
    const int power = fold_power(largest_of_warp(magnitude));
    if (threadIdx.x % 32 == 0) params.scales[row] = fold_scale(power);
    walk_row<kBits>(params, row, [&](int64_t k, int inside, const FourCodes<kBits>& codes, uint32_t scale) {
      const float factor = fold_factor(scale, power);
      uint32_t word = 0;
#pragma unroll
      for (int i = 0; i < kPerThread; ++i)
        if (i < inside)
          word |= static_cast<uint32_t>(e4m3_code(number_of<kBits>(codes.code(i), params.operand.dtype) * factor))
                  << 8 * i;
      *reinterpret_cast<uint32_t*>(params.codes + row * params.pitch + k) = word;
    });
  }
}

}  // namespace

void run_operand_fold(const OperandFoldProblem& problem, cudaStream_t stream) {
  if (problem.rows == 0) return;
  constexpr int64_t kMaxCtas = 0x7fffffff;
  const FoldParams params{scaled_kernel_operand(problem.operand),
                          reads_four(problem.operand, problem.rows),
                          problem.rows,
                          problem.k,
                          problem.pitch,
                          problem.codes,
                          problem.scales};
  const LaunchConfig config{
      .grid = dim3(static_cast<unsigned>(std::min((problem.rows + kWarps - 1) / kWarps, kMaxCtas))),
      .threads = kThreads,
      .stream = stream};
  const char* what = "launching a kernel that folds an operand";
  if (problem.operand.dtype == DType::kFloat4E2M1)
    launch_kernel(what, config, &fold<4>, params);
  else
    launch_kernel(what, config, &fold<8>, params);
}

}  // namespace tileon
