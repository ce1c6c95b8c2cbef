// An operand of any encoding as numbers of 16 or 32 bits, for products by the kernels of matmul. Bound by memory: a
// code read, a number written.
#include <algorithm>
#include <cstdint>

#include "cuda/common/convert.cuh"
#include "cuda/common/numbers.cuh"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/runtime.h"

namespace tileon {
namespace {

constexpr int kThreads = 256, kPerThread = 4;

struct ExpandParams {
  ScaledKernelOperand operand;
  ScaleType scale_type;
  int vec_bits;  // 2^vec_bits elements share a scale
  bool vectors, with_scales;
  int64_t rows, k, pitch;
  void* out;
  int64_t second;
  bool is_split;
};

__device__ __forceinline__ float scale_of(const ExpandParams& params, int64_t row, int64_t k) {
  if (!params.with_scales || params.operand.scale == nullptr) return 1.0f;
  const int64_t at = params.operand.scale_strides.offset(row, k >> params.vec_bits);
  if (params.scale_type == ScaleType::kFloat32) return static_cast<const float*>(params.operand.scale)[at];
  return byte_scale(params.operand, params.scale_type, at);
}

// A thread writes four neighbours of a row at a time.
template <int kBits, typename Element>
__global__ void __launch_bounds__(kThreads) expand(const __grid_constant__ ExpandParams params) {
  struct alignas(kPerThread * sizeof(Element)) Four {
    Element values[kPerThread];
  };
  const int64_t k = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPerThread;
  if (k >= params.k) return;
  const int inside = static_cast<int>(min(params.k - k, static_cast<int64_t>(kPerThread)));
  for (int64_t row = blockIdx.y; row < params.rows; row += gridDim.y) {
    const FourCodes<kBits> codes = load_four<kBits>(params.operand, row, k, inside, params.vectors);
    const float scale = scale_of(params, row, k);
    Four four, second;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const float number = i < inside ? number_of<kBits>(codes.code(i), params.operand.dtype) * scale : 0.0f;
      four.values[i] = round_to<Element>(number);
      const float first = widen(four.values[i]);
      second.values[i] = round_to<Element>(!isfinite(first) ? 0.0f : params.is_split ? number - first : number);
    }
    Element* to = static_cast<Element*>(params.out) + row * params.pitch + k;
    *reinterpret_cast<Four*>(to) = four;
    if (params.second != 0) *reinterpret_cast<Four*>(to + params.second) = second;
  }
}

}  // namespace

void run_operand_expansion(const OperandExpandProblem& problem, cudaStream_t stream) {
  if (problem.rows == 0 || problem.k == 0) return;
  constexpr int64_t kMaxGridY = 65535;
  const int64_t per_cta = kThreads * kPerThread;
  const Scale& scale = problem.operand.scale;
  const int vec_bits = scale.vec == 16 ? 4 : scale.vec == 32 ? 5 : 7;
  const ExpandParams params{scaled_kernel_operand(problem.operand),
                            scale.type,
                            vec_bits,
                            reads_four(problem.operand, problem.rows),
                            problem.with_scales,
                            problem.rows,
                            problem.k,
                            problem.pitch,
                            problem.out,
                            problem.second,
                            problem.is_split};
  const dim3 grid(static_cast<unsigned>((problem.k + per_cta - 1) / per_cta),
                  static_cast<unsigned>(std::min(problem.rows, kMaxGridY)));
  visit<16, 8, 4>(bits_of_element(problem.operand.dtype), [&](auto bits) {
    visit_elements(problem.out_dtype, [&](auto element) {
      launch_kernel("launching a kernel that expands an operand", {.grid = grid, .threads = kThreads, .stream = stream},
                    &expand<decltype(bits)::value, decltype(element)>, params);
    });
  });
}

}  // namespace tileon
