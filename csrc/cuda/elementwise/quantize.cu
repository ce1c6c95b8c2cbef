// Numbers to codes and packed scales, or to the numbers that these stand for, in one pass. (Float32 scales:
// quantize_float32.cu.)
#include <cstdint>
#include <type_traits>

#include "core/block_quantize.h"
#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/lane_codes.cuh"
#include "cuda/elementwise/lane_numbers.cuh"
#include "cuda/elementwise/row_walk.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon {
namespace {

using Walk = RowWalk<kLaneElements, 2, 4>;

// What makes a block's scale of its largest magnitude: once a thread, or once a row where each has its own global
// scale.
template <Format kFormat>
struct AccumulatorScale {
  float global = 1, inverse = 1;
  ScaleRounding rounding;

  __device__ __forceinline__ explicit AccumulatorScale(const QuantizeProblem& problem) : rounding(problem.rounding) {
    if (problem.global_scale != nullptr && problem.global_scale_stride == 0) read_global(problem, 0);
  }

  __device__ __forceinline__ void read_global(const QuantizeProblem& problem, int64_t row) {
    if constexpr (kFormat == Format::kNvfp4) {
      global = problem.global_scale[row * problem.global_scale_stride];
      inverse = 1.0f / global;
    }
  }

  __device__ __forceinline__ BlockScale of(float amax) const {
    if constexpr (kFormat == Format::kNvfp4) return fast_nvfp4_scale(amax, global, inverse);
    return e8m0_scale<info(kFormat).dtype>(amax, rounding);
  }
};

// With those of the scales' blocks.
TILEON_HOST_DEVICE int64_t padded_rows(const QuantizeProblem& problem) {
  return scale_row_blocks(problem.rows) * kScaleBlockRows;
}

template <Format kFormat, typename Element, bool kVectors, bool kToNumbers>
__global__ void __launch_bounds__(Walk::kThreads, kVectors ? Walk::kResident : 1)
    quantize(const __grid_constant__ QuantizeProblem problem) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  constexpr FormatInfo format = info(kFormat);
  constexpr uint8_t scale_nan = format.scale == ScaleType::kE8M0 ? kE8M0NaN : kE4M3NaN;
  AccumulatorScale<kFormat> scaling(problem);
  const int64_t cols = problem.k / format.vec;
  const ScaleStrides packed = packed_scales(cols);
  const int64_t padded_k = scale_col_blocks(cols) * kScaleBlockCols * format.vec;
  const auto* x = static_cast<const Element*>(problem.x);

  Walk::walk(kToNumbers ? problem.rows : padded_rows(problem), [&](int64_t row, int64_t begin) {
    const int lane_begin = Walk::lane_begin();
    const int inside = row < problem.rows ? Walk::inside(begin, problem.k) : 0;
    const int padded = Walk::inside(begin, padded_k);
    const int64_t k = begin + lane_begin;
    const Element* from = x + row * problem.stride_row + k * problem.stride_k;
    uint8_t* data = problem.data + (row * problem.k + k) / elements_per_byte(format.dtype);
    Element* numbers = static_cast<Element*>(problem.numbers) + row * problem.k + k;
    uint8_t* scales = static_cast<uint8_t*>(problem.scale) + packed.offset(row, k / format.vec);
    if (problem.global_scale_stride != 0 && row < problem.rows) scaling.read_global(problem, row);

    static_assert(Walk::kSpanElements / format.vec % kScaleBlockCols == 0,
                  "a span begins where a block of scales does");
    LaneNumbers<Element> lanes[Walk::kCount];
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      lanes[span] = {};
      if (lane_begin + span * Walk::kSpanElements >= inside) continue;
      if constexpr (kVectors) {
        lanes[span] = *reinterpret_cast<const LaneNumbers<Element>*>(from + span * Walk::kSpanElements);
      } else {
        lanes[span].gather(from + span * Walk::kSpanElements * problem.stride_k, problem.stride_k);
      }
    }
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      const int lane_k = lane_begin + span * Walk::kSpanElements;
      const LaneNumbers<Element> magnitudes = lanes[span].magnitudes();
      const float amax = block_amax<format.vec / kLaneElements>(magnitudes);
      if (lane_k >= padded) continue;
      BlockScale scale = scaling.of(amax);
      LaneCodes<format.dtype> codes;
      if (is_finite_amax(bits_of(amax))) {
        codes.template encode<format.scale == ScaleType::kE8M0>(lanes[span], magnitudes, scale.factor);
      } else {
        scale.byte = scale_nan;
      }
      if constexpr (kToNumbers) {
        if (lane_k < inside)
          *reinterpret_cast<LaneNumbers<Element>*>(numbers + span * Walk::kSpanElements) =
              codes.template numbers<Element>(scale_value<format.scale>(scale.byte));
        continue;
      }
      if (lane_k < inside) codes.store(data + span * Walk::kSpanElements / elements_per_byte(format.dtype));
      if (lane_k % format.vec == 0)
        scales[packed.of_col(span * Walk::kSpanElements / format.vec)] = lane_k < inside ? scale.byte : 0;
    }
  });
}

template <Format kFormat, typename Element, bool kToNumbers>
void launch_quantize(const QuantizeProblem& problem, int64_t rows, int64_t elements, cudaStream_t stream) {
  constexpr int64_t bytes = sizeof(Element);
  const bool vectors = has_vectors(problem.x, problem.stride_row * bytes, problem.stride_k, kVectorBytes);
  const auto launch = vectors ? launch_row_walk<Walk, &quantize<kFormat, Element, true, kToNumbers>, QuantizeProblem>
                              : launch_row_walk<Walk, &quantize<kFormat, Element, false, kToNumbers>, QuantizeProblem>;
  launch(problem, rows, elements, stream);
}

template <Format kFormat, typename Element>
void launch_quantize(const QuantizeProblem& problem, cudaStream_t stream) {
  if constexpr (kFormat != Format::kNvfp4 && sizeof(Element) == 2) {
    if (problem.numbers != nullptr)
      return launch_quantize<kFormat, Element, true>(problem, problem.rows, problem.k, stream);
  }
  launch_quantize<kFormat, Element, false>(
      problem, padded_rows(problem), scale_col_blocks(problem.cols()) * kScaleBlockCols * info(kFormat).vec, stream);
}

}  // namespace

void run_quantize(const QuantizeProblem& problem, void* workspace, cudaStream_t stream) {
  if (!has_packed_scales(problem.format)) return run_quantize_float32(problem, workspace, stream);
  visit<Format::kMxfp8, Format::kMxfp4, Format::kNvfp4>(problem.format, [&](auto format) {
    visit_elements(problem.dtype,
                   [&](auto element) { launch_quantize<decltype(format)::value, decltype(element)>(problem, stream); });
  });
}

}  // namespace tileon
