// Codes and scales to numbers.
#include <cstdint>

#include "../../small_floats.h"
#include "../output/convert.cuh"
#include "quantize.h"
#include "row_walk.cuh"

namespace tileon {
namespace {

constexpr int kLaneElements = 8;

// e2m1_value and e4m3_value of small_floats.h in fewer instructions, of a code that is the top of `bits`: no thread
// here flushes float32's subnormals.
template <ElementType kElement>
__device__ __forceinline__ float fast_value(uint32_t bits) {
  constexpr bool e4m3 = kElement == ElementType::kE4M3;
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
  static constexpr int bits = format.element == ElementType::kE4M3 ? 8 : 4;
  static constexpr int words = kLaneElements * bits / 32;
  struct alignas(words * 4) Vector {
    uint32_t words[LaneCodes::words];
  };

  Vector codes;
  uint8_t scale_byte;

  __device__ __forceinline__ void load(const uint8_t* from, int64_t stride, bool vectors) {
    if (vectors) {
      codes = *reinterpret_cast<const Vector*>(from);
      return;
    }
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
    return fast_value<format.element>(codes.words[i * bits / 32] << (32 - bits - i * bits % 32));
  }
};

// In vectors of 16 bytes.
template <typename Element>
struct alignas(16) LaneNumbers {
  Element numbers[kLaneElements];
};

template <Format kFormat, typename Element>
__global__ void __launch_bounds__(kWalkWarps * 32) dequantize(const __grid_constant__ DequantizeProblem problem) {
  using Lane = LaneCodes<kFormat>;
  const float global = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;
  constexpr int64_t vector_bytes = Lane::words * 4;
  const bool vectors = problem.stride_k == 1 && problem.stride_row % vector_bytes == 0 &&
                       reinterpret_cast<uintptr_t>(problem.data) % vector_bytes == 0;

  Lane lanes[kSpans<kLaneElements>];
  const auto load = [&](int64_t row, int64_t k, int span) {
    if (k >= problem.k) return;
    lanes[span].load(problem.data + row * problem.stride_row + k * Lane::bits / 8 * problem.stride_k, problem.stride_k,
                     vectors);
    lanes[span].scale_byte = problem.scale[problem.scale_strides.offset(row, k / Lane::format.vec)];
  };
  walk_rows<kLaneElements>(problem.rows, problem.k, load, [&](int64_t row, int64_t k, int span) {
    if (k >= problem.k) return;
    const float scale = lanes[span].scale();
    LaneNumbers<Element> out;
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) out.numbers[i] = round_to<Element>(lanes[span].value(i) * scale * global);
    *reinterpret_cast<LaneNumbers<Element>*>(static_cast<Element*>(problem.out) + row * problem.k + k) = out;
  });
}

template <Format kFormat>
void launch_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  switch (problem.out_dtype) {
    case DType::kFloat16:
      return launch_row_walk<&dequantize<kFormat, __half>, kLaneElements>(problem, problem.rows, problem.k, stream);
    case DType::kBFloat16:
      return launch_row_walk<&dequantize<kFormat, __nv_bfloat16>, kLaneElements>(problem, problem.rows, problem.k,
                                                                                 stream);
    default:
      return launch_row_walk<&dequantize<kFormat, float>, kLaneElements>(problem, problem.rows, problem.k, stream);
  }
}

}  // namespace

void run_dequantize(const DequantizeProblem& problem, cudaStream_t stream) {
  switch (problem.format) {
    case Format::kMxfp8:
      return launch_dequantize<Format::kMxfp8>(problem, stream);
    case Format::kMxfp4:
      return launch_dequantize<Format::kMxfp4>(problem, stream);
    case Format::kNvfp4:
      return launch_dequantize<Format::kNvfp4>(problem, stream);
  }
}

}  // namespace tileon
