// From the sums of a product to its output: scales of rows and columns, global scale, bias, activation, one rounding.
// Bound by memory: a sum read, an element written.
#include <algorithm>
#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsPerCta = 4;

struct FinishParams {
  FinishProblem problem;
  bool reads_four;  // four neighbouring sums at once, and four elements of the output
  bool writes_four;
};

__device__ __forceinline__ float scale_at(const SumScale& scale, int64_t i) {
  return scale.data == nullptr ? 1.0f : scale.data[i * scale.stride];
}

__device__ __forceinline__ Quad<float> load_sums(const float* sums, int inside, bool four) {
  if (four) return *reinterpret_cast<const Quad<float>*>(sums);
  Quad<float> loaded{};
#pragma unroll
  for (int i = 0; i < kColumnsPerLane; ++i)
    if (i < inside) loaded.values[i] = sums[i];
  return loaded;
}

// A thread has four neighbouring columns of some rows. The scales of a row and a column are multiplied in double:
// neither they nor their product are ever out of range.
template <typename Out>
__global__ void __launch_bounds__(kThreads) finish(const __grid_constant__ FinishParams params) {
  const FinishProblem& problem = params.problem;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kColumnsPerLane;
  if (column >= problem.n) return;
  const int inside = static_cast<int>(min(problem.n - column, static_cast<int64_t>(kColumnsPerLane)));
  double of_column[kColumnsPerLane];
  float bias[kColumnsPerLane];
#pragma unroll
  for (int i = 0; i < kColumnsPerLane; ++i) {
    of_column[i] = i < inside ? scale_at(problem.column, column + i) : 1.0f;
    bias[i] = i < inside && problem.epilogue.bias != nullptr ? load_bias<float>(problem.epilogue, column + i) : 0.0f;
  }
  const auto slope = static_cast<float>(problem.epilogue.slope);
  for (int64_t row = blockIdx.y; row < problem.m; row += gridDim.y) {
    const float* from = problem.sums + row * problem.n + column;
    Quad<float> sums = load_sums(from, inside, params.reads_four);
    if (problem.second != 0) {
      const Quad<float> second = load_sums(from + problem.second, inside, params.reads_four);
#pragma unroll
      for (int i = 0; i < kColumnsPerLane; ++i)  // to an infinity the second part might be one of the other sign
        if (isfinite(sums.values[i])) sums.values[i] += second.values[i];
    }
    const double of_row = scale_at(problem.row, row);
    const float global = scale_at(problem.global, row);
    Quad<Out> rounded;
#pragma unroll
    for (int i = 0; i < kColumnsPerLane; ++i) {
      // Rounded, and infinite where it overflows, before the bias is added: one fused operation would do neither.
      const float scaled =
          __fmul_rn(static_cast<float>(static_cast<double>(sums.values[i]) * (of_row * of_column[i])), global);
      rounded.values[i] = round_to<Out>(activate(scaled + bias[i], problem.epilogue.activation, slope));
    }
    Out* to = static_cast<Out*>(problem.out.data) + row * problem.out.stride_m + column * problem.out.stride_n;
    if (params.writes_four && inside == kColumnsPerLane) {
      *reinterpret_cast<Quad<Out>*>(to) = rounded;
    } else {
#pragma unroll
      for (int i = 0; i < kColumnsPerLane; ++i)
        if (i < inside) to[i * problem.out.stride_n] = rounded.values[i];
    }
  }
}

// Whether four neighbours from each multiple of four columns on lie together, at a multiple of their bytes.
bool writes_four(const Output& out, int64_t element_bytes) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out.data));
  return out.stride_n == 1 && (address | out.stride_m * element_bytes) % (kColumnsPerLane * element_bytes) == 0;
}

template <typename Out>
void launch_finish(const FinishProblem& problem, cudaStream_t stream) {
  constexpr int64_t kMaxGridY = 65535, kPerCta = kThreads * kColumnsPerLane;
  const FinishParams params{problem, problem.n % kColumnsPerLane == 0, writes_four(problem.out, sizeof(Out))};
  const dim3 grid(static_cast<unsigned>((problem.n + kPerCta - 1) / kPerCta),
                  static_cast<unsigned>(std::min((problem.m + kRowsPerCta - 1) / kRowsPerCta, kMaxGridY)));
  launch_kernel("launching a kernel that finishes sums", {.grid = grid, .threads = kThreads, .stream = stream},
                &finish<Out>, params);
}

}  // namespace

void run_finish(const FinishProblem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return;
  switch (problem.out_dtype) {
    case DType::kFloat16:
      return launch_finish<__half>(problem, stream);
    case DType::kBFloat16:
      return launch_finish<__nv_bfloat16>(problem, stream);
    case DType::kFloat8E4M3:
      return launch_finish<E4M3>(problem, stream);
    default:
      return launch_finish<float>(problem, stream);
  }
}

}  // namespace tileon
