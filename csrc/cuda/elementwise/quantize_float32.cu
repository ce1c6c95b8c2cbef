// Numbers to codes of e4m3 or int8 and float32 scales, of a row, of 128 numbers of a row, of 128 x 128, or one for all.
// Of a long row what registers do not hold is read twice, and the second time mostly from a cache; all of a tensor
// is read twice, by two kernels.
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/block_quantize.h"
#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/lane_numbers.cuh"
#include "cuda/elementwise/row_walk.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon {
namespace {

constexpr int kThreads = kWalkWarps * 32;
constexpr int kSpan = 32 * kLaneElements;  // of a row, a warp's
constexpr int kSide = 128;                 // of a block
constexpr int kLanesPerBlock = kSide / kLaneElements;

// x and data, by lanes. `kVectors`: rows of both are vectors from end to end, so that a lane has all of its numbers or
// none.
template <DType kElement, typename Element, bool kVectors>
struct Lanes {
  const QuantizeProblem& problem;

  // How many of a lane's numbers are in the row; 0 or less where none is.
  __device__ __forceinline__ int count(int64_t k) const {
    return static_cast<int>(min(problem.k - k, static_cast<int64_t>(kLaneElements)));
  }

  // Zeros where there is nothing.
  __device__ __forceinline__ LaneNumbers<Element> load(int64_t row, int64_t k) const {
    const Element* from = static_cast<const Element*>(problem.x) + row * problem.stride_row + k * problem.stride_k;
    LaneNumbers<Element> lane = {};
    if constexpr (kVectors) {
      if (count(k) > 0) lane = *reinterpret_cast<const LaneNumbers<Element>*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i)
        if (i < count(k)) lane.numbers[i] = from[i * problem.stride_k];
    }
    return lane;
  }

  // Four codes, the first in the low byte.
  __device__ __forceinline__ uint32_t encode_four(float2 first, float2 second, float inverse) const {
    if constexpr (kElement == DType::kInt8) {
      const auto code = [&](float x) { return bits_of(__fadd_rn(__fmul_rn(x, inverse), 12582912.0f)); };
      return ptx::prmt(ptx::prmt(code(first.x), code(first.y), 0x0040),
                       ptx::prmt(code(second.x), code(second.y), 0x0040), 0x5410);
    } else {
      const auto pair = [&](float2 two) -> uint32_t {
        const float2 scaled{__fmul_rn(two.x, inverse), __fmul_rn(two.y, inverse)};
        return __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, __NV_E4M3);
      };
      return pair(first) | pair(second) << 16;
    }
  }

  __device__ __forceinline__ void store(const LaneNumbers<Element>& lane, int64_t row, int64_t k, float inverse) const {
    uint32_t words[kLaneElements / 4];
#pragma unroll
    for (int i = 0; i < kLaneElements / 4; ++i)
      words[i] = inverse == 0.0f ? 0 : encode_four(lane.two(2 * i), lane.two(2 * i + 1), inverse);
    uint8_t* to = problem.data + row * problem.k + k;
    if constexpr (kVectors) {
      if (count(k) > 0) *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
    } else {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i)
        if (i < count(k)) to[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
    }
  }

  __device__ __forceinline__ void store_scale(int64_t index, const Float32Scale& scale) const {
    static_cast<float*>(problem.scale)[index] = scale.scale;
  }
};

// ---- a scale for each row: of kRowWarps warps, whose lanes keep their first kHeld shares of it in registers ----

template <DType kElement, typename Element, bool kVectors, int kRowWarps, int kHeld>
__global__ void __launch_bounds__(kThreads, 1) quantize_rows(const __grid_constant__ QuantizeProblem problem) {
  constexpr int rows_at_once = kWalkWarps / kRowWarps, row_threads = 32 * kRowWarps, step = kRowWarps * kSpan;
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const Lanes<kElement, Element, kVectors> lanes{problem};
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows_at_once + threadIdx.x / row_threads;
  const int64_t end = row < problem.rows ? problem.k : 0, first_k = threadIdx.x % row_threads * kLaneElements;
  const int64_t rest_k = first_k + kHeld * step;
  LaneNumbers<Element> held[kHeld] = {};
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first_k + i * step < end) held[i] = lanes.load(row, first_k + i * step);
  float amax = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) amax = ptx::max_nan(amax, lane_amax(held[i].magnitudes()));
  for (int64_t k = rest_k; k < end; k += step) amax = ptx::max_nan(amax, lane_amax(lanes.load(row, k).magnitudes()));
  const Float32Scale scale = float32_scale<kElement>(bits_of(warps_amax<kRowWarps>(amax)));
  if (first_k == 0 && row < problem.rows) lanes.store_scale(row, scale);
#pragma unroll
  for (int i = 0; i < kHeld; ++i)
    if (first_k + i * step < end) lanes.store(held[i], row, first_k + i * step, scale.inverse);
  for (int64_t k = rest_k; k < end; k += step) lanes.store(lanes.load(row, k), row, k, scale.inverse);
}

template <DType kElement, typename Element, bool kVectors>
void launch_rows(const QuantizeProblem& problem, cudaStream_t stream) {
  if (problem.rows == 0) return;
  const auto launch = [&]<int kRowWarps, int kHeld>() {
    launch_kernel(
        "launching a kernel that quantizes rows",
        one_cta_for_each((problem.rows * kRowWarps + kWalkWarps - 1) / kWalkWarps, problem.may_overlap, stream),
        &quantize_rows<kElement, Element, kVectors, kRowWarps, kHeld>, problem);
  };
  // As few warps as have the row in their registers, and so the more rows under way at once.
  constexpr int few = sizeof(Element) == 2 ? 2 : 1, many = 2 * few;
  if (problem.k <= few * kSpan) return launch.template operator()<1, few>();
  if (problem.k <= 4 * few * kSpan) return launch.template operator()<4, few>();
  if (problem.k <= kWalkWarps * few * kSpan) return launch.template operator()<kWalkWarps, few>();
  launch.template operator()<kWalkWarps, many>();
}

// ---- a scale for 128 numbers of a row ----

using Walk = RowWalk<kLaneElements, 2, 4>;

template <DType kElement, typename Element, bool kVectors>
__global__ void __launch_bounds__(kThreads, 1) quantize_row_blocks(const __grid_constant__ QuantizeProblem problem) {
  static_assert(Walk::kSpanElements % kSide == 0);
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const Lanes<kElement, Element, kVectors> lanes{problem};
  const int64_t cols = blocks_in(problem.k, kSide);
  Walk::walk(problem.rows, [&](int64_t row, int64_t begin) {
    LaneNumbers<Element> numbers[Walk::kCount];
    begin += Walk::lane_begin();
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) numbers[span] = lanes.load(row, begin + span * kSpan);
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      const int64_t k = begin + span * kSpan;
      const float amax = block_amax<kLanesPerBlock>(numbers[span].magnitudes());
      const Float32Scale scale = float32_scale<kElement>(bits_of(amax));
      if (k % kSide == 0 && k < problem.k) lanes.store_scale(row * cols + k / kSide, scale);
      lanes.store(numbers[span], row, k, scale.inverse);
    }
  });
}

template <DType kElement, typename Element, bool kVectors>
void launch_row_blocks(const QuantizeProblem& problem, cudaStream_t stream) {
  launch_row_walk<Walk, &quantize_row_blocks<kElement, Element, kVectors>>(problem, problem.rows, problem.k, stream);
}

// ---- a scale for 128 x 128: a CTA has them all in registers ----

template <DType kElement, typename Element, bool kVectors>
__global__ void __launch_bounds__(kThreads, 1) quantize_tiles(const __grid_constant__ QuantizeProblem problem) {
  constexpr int rows_at_once = kThreads / kLanesPerBlock, steps = kSide / rows_at_once;
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const Lanes<kElement, Element, kVectors> lanes{problem};
  const auto cols = static_cast<unsigned>(blocks_in(problem.k, kSide));
  const int64_t first_row = blockIdx.x / cols * int64_t{kSide} + threadIdx.x / kLanesPerBlock;
  const int64_t k = blockIdx.x % cols * int64_t{kSide} + threadIdx.x % kLanesPerBlock * kLaneElements;
  LaneNumbers<Element> numbers[steps] = {};
  float amax = 0;
#pragma unroll
  for (int i = 0; i < steps; ++i)
    if (first_row + i * rows_at_once < problem.rows) numbers[i] = lanes.load(first_row + i * rows_at_once, k);
#pragma unroll
  for (int i = 0; i < steps; ++i) amax = ptx::max_nan(amax, lane_amax(numbers[i].magnitudes()));
  const Float32Scale scale = float32_scale<kElement>(bits_of(warps_amax<kWalkWarps>(amax)));
  if (threadIdx.x == 0) lanes.store_scale(blockIdx.x, scale);
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    const int64_t row = first_row + i * rows_at_once;
    if (row < problem.rows) lanes.store(numbers[i], row, k, scale.inverse);
  }
}

template <DType kElement, typename Element, bool kVectors>
void launch_tiles(const QuantizeProblem& problem, cudaStream_t stream) {
  const int64_t tiles = problem.scale_rows() * problem.cols();
  if (tiles == 0) return;
  launch_kernel("launching a kernel that quantizes blocks", one_cta_for_each(tiles, problem.may_overlap, stream),
                &quantize_tiles<kElement, Element, kVectors>, problem);
}

// ---- one scale for all: one kernel finds the largest magnitude of each CTA's part, a second one that of the parts
// ----

constexpr int kMostParts = 1056;  // 8 CTAs of each of an H200's SMs

// How the warps of a grid take the spans of all rows in turn.
struct TensorWalk {
  int64_t rows = 0;
  int64_t row_spans = 1;
  int64_t step_rows = 0;  // from a warp's span to its next one
  int64_t step_spans = 0;
  int ctas = 1;

  explicit TensorWalk(const QuantizeProblem& problem) {
    if (problem.k == 0) return;
    rows = problem.rows;
    row_spans = (problem.k + kSpan - 1) / kSpan;
    ctas = static_cast<int>(std::clamp<int64_t>((rows * row_spans + kWalkWarps - 1) / kWalkWarps, 1, kMostParts));
    step_rows = ctas * kWalkWarps / row_spans;
    step_spans = ctas * kWalkWarps % row_spans;
  }

  // Calls `use(row, k)` for each of this thread's lanes.
  template <typename Use>
  __device__ __forceinline__ void walk(const Use& use) const {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kWalkWarps + threadIdx.x / 32;
    int64_t row = first / row_spans, span = first % row_spans;
    while (row < rows) {
      use(row, span * kSpan + threadIdx.x % 32 * kLaneElements);
      row += step_rows;
      span += step_spans;
      if (span >= row_spans) {
        span -= row_spans;
        ++row;
      }
    }
  }
};

template <typename Element, bool kVectors>
__global__ void __launch_bounds__(kThreads, 1)
    find_amax(const __grid_constant__ QuantizeProblem problem, const __grid_constant__ TensorWalk walk,
              float* __restrict__ parts) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const Lanes<DType::kInt8, Element, kVectors> lanes{problem};
  float amax = 0;
  walk.walk([&](int64_t row, int64_t k) { amax = ptx::max_nan(amax, lane_amax(lanes.load(row, k).magnitudes())); });
  amax = warps_amax<kWalkWarps>(amax);
  if (threadIdx.x == 0) parts[blockIdx.x] = amax;
}

// `parts`: of as many CTAs as this grid has.
template <DType kElement, typename Element, bool kVectors>
__global__ void __launch_bounds__(kThreads, 1)
    quantize_tensor(const __grid_constant__ QuantizeProblem problem, const __grid_constant__ TensorWalk walk,
                    const float* __restrict__ parts) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const Lanes<kElement, Element, kVectors> lanes{problem};
  float amax = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) amax = ptx::max_nan(amax, parts[i]);
  const Float32Scale scale = float32_scale<kElement>(bits_of(warps_amax<kWalkWarps>(amax)));
  if (blockIdx.x == 0 && threadIdx.x == 0) lanes.store_scale(0, scale);
  walk.walk([&](int64_t row, int64_t k) { lanes.store(lanes.load(row, k), row, k, scale.inverse); });
}

template <DType kElement, typename Element, bool kVectors>
void launch_tensor(const QuantizeProblem& problem, float* parts, cudaStream_t stream) {
  const TensorWalk walk(problem);
  const LaunchConfig launch{.grid = dim3(static_cast<unsigned>(walk.ctas)),
                            .threads = kThreads,
                            .stream = stream,
                            .may_overlap = problem.may_overlap};
  launch_kernel("launching a kernel that finds the largest magnitude", launch, &find_amax<Element, kVectors>, problem,
                walk, parts);
  launch_kernel("launching a kernel that quantizes a tensor", launch, &quantize_tensor<kElement, Element, kVectors>,
                problem, walk, parts);
}

// ---- the choice ----

template <DType kElement, typename Element, bool kVectors>
void launch(const QuantizeProblem& problem, void* workspace, cudaStream_t stream) {
  const FormatInfo& format = info(problem.format);
  if (format.rows == 0)
    return launch_tensor<kElement, Element, kVectors>(problem, static_cast<float*>(workspace), stream);
  if (format.vec == 0) return launch_rows<kElement, Element, kVectors>(problem, stream);
  if constexpr (kElement == DType::kFloat8E4M3) {
    format.rows == 1 ? launch_row_blocks<kElement, Element, kVectors>(problem, stream)
                     : launch_tiles<kElement, Element, kVectors>(problem, stream);
  }
}

}  // namespace

int64_t quantize_workspace(const QuantizeProblem& problem) {
  return info(problem.format).rows == 0 ? kMostParts * int64_t{sizeof(float)} : 0;
}

void run_quantize_float32(const QuantizeProblem& problem, void* workspace, cudaStream_t stream) {
  visit<DType::kFloat8E4M3, DType::kInt8>(info(problem.format).dtype, [&](auto element) {
    visit_elements(problem.dtype, [&](auto number) {
      using Element = decltype(number);
      const bool vectors =
          problem.k % kLaneElements == 0 &&
          has_vectors(problem.x, problem.stride_row * int64_t{sizeof(Element)}, problem.stride_k, kVectorBytes);
      vectors ? launch<decltype(element)::value, Element, true>(problem, workspace, stream)
              : launch<decltype(element)::value, Element, false>(problem, workspace, stream);
    });
  });
}

}  // namespace tileon
