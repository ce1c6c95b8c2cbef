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

// ---- codes of 8 bits alone, as 16 bits ----

// A thread has eight neighbours of each of some rows, whose loads are under way at once: sixteen bytes of the result,
// so that a warp writes whole lines.
constexpr int kWidePerThread = 8, kWideRows = 8;

// Whether every row is whole vectors of eight codes, in its place and in the result's.
inline bool is_wide(const OperandExpandProblem& problem) {
  const Operand& operand = problem.operand;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  return info(operand.dtype).bytes == 1 && elements_per_byte(operand.dtype) == 1 &&
         info(problem.out_dtype).bytes == 2 && !problem.with_scales && problem.second == 0 && operand.stride_k == 1 &&
         (address | problem.k | problem.pitch | (problem.rows > 1 ? operand.stride_mn : 0)) % kWidePerThread == 0;
}

template <DType kCode, typename Element>
__global__ void __launch_bounds__(kThreads) expand_wide(const __grid_constant__ ExpandParams params) {
  struct alignas(16) Eight {
    Element values[kWidePerThread];
  };
  const int64_t k = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWidePerThread;
  if (k >= params.k) return;
  const auto* codes = static_cast<const uint8_t*>(params.operand.data) + k;
  auto* out = static_cast<Element*>(params.out) + k;
  for (int64_t first = int64_t{blockIdx.y} * kWideRows; first < params.rows; first += int64_t{gridDim.y} * kWideRows) {
    const int rows = static_cast<int>(min(params.rows - first, int64_t{kWideRows}));
    uint2 loaded[kWideRows];
#pragma unroll
    for (int i = 0; i < kWideRows; ++i)
      if (i < rows) loaded[i] = *reinterpret_cast<const uint2*>(codes + (first + i) * params.operand.stride_row);
#pragma unroll
    for (int i = 0; i < kWideRows; ++i) {
      if (i >= rows) break;
      Eight eight;
#pragma unroll
      for (int j = 0; j < kWidePerThread; ++j)
        eight.values[j] =
            round_to<Element>(number_of<8>((j < 4 ? loaded[i].x : loaded[i].y) >> j % 4 * 8 & 0xff, kCode));
      *reinterpret_cast<Eight*>(out + (first + i) * params.pitch) = eight;
    }
  }
}

// ---- any other ----

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
  const bool wide = is_wide(problem);
  const int64_t per_cta = kThreads * (wide ? kWidePerThread : kPerThread);
  const int64_t row_steps = wide ? (problem.rows + kWideRows - 1) / kWideRows : problem.rows;
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
                  static_cast<unsigned>(std::min(row_steps, kMaxGridY)));
  const LaunchConfig config{.grid = grid, .threads = kThreads, .stream = stream};
  constexpr const char* kWhat = "launching a kernel that expands an operand";
  if (wide) {
    visit<DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8>(problem.operand.dtype, [&](auto code) {
      const auto launch = [&](auto element) {
        launch_kernel(kWhat, config, &expand_wide<decltype(code)::value, decltype(element)>, params);
      };
      problem.out_dtype == DType::kFloat16 ? launch(__half()) : launch(__nv_bfloat16());
    });
    return;
  }
  visit<16, 8, 4>(bits_of_element(problem.operand.dtype), [&](auto bits) {
    visit_elements(problem.out_dtype, [&](auto element) {
      launch_kernel(kWhat, config, &expand<decltype(bits)::value, decltype(element)>, params);
    });
  });
}

}  // namespace tileon
