// Codes and scales to numbers.
#include <cstdint>

#include "core/small_floats.h"
#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/row_walk.cuh"

namespace tileon {
namespace {

constexpr int kLaneElements = 8;
using Walk = RowWalk<kLaneElements, 4, 6>;

// e2m1_value and e4m3_value of small_floats.h in fewer instructions, of a code that is the top of `bits`: no thread
// here flushes float32's subnormals.
template <DType kElement>
__device__ __forceinline__ float fast_value(uint32_t bits) {
  constexpr bool e4m3 = kElement == DType::kFloat8E4M3;
  constexpr int down = e4m3 ? 4 : 6;  // to where exponent and mantissa of float32 meet
  constexpr uint32_t mask = e4m3 ? 0x07f00000u : 0x01c00000u;
  const float moved = float_of((bits & 0x80000000u) | (bits >> down & mask));
  const float value = moved * power_of_two(e4m3 ? 120 : 126);
  if constexpr (e4m3) return (bits & 0x7f000000u) == 0x7f000000u ? float_of(0x7fc00000u) : value;
  return value;
}

// A lane's codes and their scale: a word of e2m1, two of e4m3.
template <Format kFormat>
struct LaneCodes {
  static constexpr FormatInfo format = info(kFormat);
  static constexpr int bits = format.dtype == DType::kFloat8E4M3 ? 8 : 4;
  static constexpr int words = kLaneElements * bits / 32;
  struct alignas(words * 4) Vector {
    uint32_t words[LaneCodes::words];
  };

  Vector codes;
  uint8_t scale_byte;

  __device__ __forceinline__ void gather(const uint8_t* from, int64_t stride) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      codes.words[i] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) codes.words[i] |= static_cast<uint32_t>(from[(i * 4 + j) * stride]) << (8 * j);
    }
  }

  __device__ __forceinline__ float scale() const {
    return format.scale == ScaleType::kE8M0 ? e8m0_value(scale_byte) : e4m3_value(scale_byte);
  }

  __device__ __forceinline__ float value(int i) const {
    return fast_value<format.dtype>(codes.words[i * bits / 32] << (32 - bits - i * bits % 32));
  }
};

// Rounds and stores a lane's numbers. (By vectors that say so: of a struct of elements the compiler stores some alone.)
template <typename Element>
__device__ __forceinline__ void store_numbers(Element* to, const float (&numbers)[kLaneElements]) {
  if constexpr (sizeof(Element) == 4) {
    auto* vectors = reinterpret_cast<float4*>(to);
    vectors[0] = {numbers[0], numbers[1], numbers[2], numbers[3]};
    vectors[1] = {numbers[4], numbers[5], numbers[6], numbers[7]};
  } else {
    const auto pair = [&](int i) { return round_pair<Element>(numbers[2 * i], numbers[2 * i + 1]); };
    *reinterpret_cast<uint4*>(to) = {pair(0), pair(1), pair(2), pair(3)};
  }
}

template <Format kFormat, typename Element, bool kVectors>
__global__ void __launch_bounds__(Walk::kThreads, kVectors ? Walk::kResident : 1)
    dequantize(const __grid_constant__ DequantizeProblem problem) {
  using Lane = LaneCodes<kFormat>;
  constexpr int vec = Lane::format.vec;
  const float global = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;

  Walk::walk(problem.rows, [&](int64_t row, int64_t begin) {
    const int inside = Walk::inside(begin, problem.k) - Walk::lane_begin();  // of this lane's spans
    const int64_t k = begin + Walk::lane_begin();
    const uint8_t* from = problem.data + row * problem.stride_row + k * Lane::bits / 8 * problem.stride_k;
    const uint8_t* scales = problem.scale + problem.scale_strides.offset(row, k / vec);
    Element* out = static_cast<Element*>(problem.out) + row * problem.k + k;

    Lane lanes[Walk::kCount];
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      constexpr int span_bytes = Walk::kSpanElements * Lane::bits / 8;
      static_assert(Walk::kSpanElements / vec % kScaleBlockCols == 0, "a span begins where a block of scales does");
      if (span * Walk::kSpanElements >= inside) continue;
      if constexpr (kVectors) {
        lanes[span].codes = *reinterpret_cast<const typename Lane::Vector*>(from + span * span_bytes);
      } else {
        lanes[span].gather(from + span * span_bytes * problem.stride_k, problem.stride_k);
      }
      lanes[span].scale_byte = scales[problem.scale_strides.of_col(span * Walk::kSpanElements / vec)];
    }
#pragma unroll
    for (int span = 0; span < Walk::kCount; ++span) {
      if (span * Walk::kSpanElements >= inside) continue;
      const float scale = lanes[span].scale();
      float numbers[kLaneElements];
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) numbers[i] = lanes[span].value(i) * scale * global;
      store_numbers(out + span * Walk::kSpanElements, numbers);
    }
  });
}

template <Format kFormat, typename Element>
void launch_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  constexpr int64_t bytes = sizeof(typename LaneCodes<kFormat>::Vector);
  const bool vectors = has_vectors(problem.data, problem.stride_row, problem.stride_k, bytes);
  const auto launch = vectors ? launch_row_walk<Walk, &dequantize<kFormat, Element, true>, DequantizeProblem>
                              : launch_row_walk<Walk, &dequantize<kFormat, Element, false>, DequantizeProblem>;
  launch(problem, problem.rows, problem.k, stream);
}

}  // namespace

void run_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  visit<Format::kMxfp8, Format::kMxfp4, Format::kNvfp4>(problem.format, [&](auto format) {
    visit_elements(problem.out_dtype, [&](auto element) {
      launch_dequantize<decltype(format)::value, decltype(element)>(problem, stream);
    });
  });
}

}  // namespace tileon
