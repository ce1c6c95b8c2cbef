// Numbers to codes and packed scales, in one pass.
#include <cuda_fp8.h>

#include <cstdint>

#include "../../block_quantize.h"
#include "../output/convert.cuh"
#include "quantize.h"
#include "row_walk.cuh"

namespace tileon {
namespace {

// Sixteen numbers of a row from `from` on, in any float dtype.
template <typename Element>
__device__ __forceinline__ void load_numbers(const Element* from, int64_t stride, bool vectors,
                                             float (&numbers)[kLaneElements]) {
  constexpr int per_vector = 16 / int(sizeof(Element));
  if (vectors) {
    struct alignas(16) Vector {
      Element elements[per_vector];
    };
#pragma unroll
    for (int i = 0; i < kLaneElements; i += per_vector) {
      const Vector vector = *reinterpret_cast<const Vector*>(from + i);
#pragma unroll
      for (int j = 0; j < per_vector; ++j) numbers[i + j] = widen(vector.elements[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) numbers[i] = widen(from[i * stride]);
  }
}

// e2m1_code of small_floats.h in half as many instructions, for numbers that are not NaN: adding 2^22 rounds to halves,
// as e2m1 has them below 2, and from 1 on the code is the top of float32's own bits, rounded.
__device__ __forceinline__ uint32_t fast_e2m1_code(float value) {
  const float magnitude = fminf(fabsf(value), kE2M1Max);
  const uint32_t bits = bits_of(magnitude);
  const uint32_t from_1 = ((bits + 0x001fffffu + (bits >> 22 & 1)) >> 22) - (126 << 1);
  const uint32_t below_2 = bits_of(magnitude + 4194304.0f) & 7;
  return (magnitude < 1.0f ? below_2 : from_1) | (bits_of(value) >> 31) << 3;
}

// The codes of sixteen numbers: two words of e2m1, four of e4m3.
template <ElementType kElement>
struct LaneCodes {
  static constexpr int words = kElement == ElementType::kE4M3 ? 4 : 2;
  uint32_t word[words] = {};

  __device__ __forceinline__ void encode(const float (&numbers)[kLaneElements], float factor) {
    if constexpr (kElement == ElementType::kE4M3) {
#pragma unroll
      for (int i = 0; i < kLaneElements; i += 2) {
        const float2 pair{numbers[i] * factor, numbers[i + 1] * factor};
        word[i / 4] |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)) << (i % 4 * 8);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) word[i / 8] |= fast_e2m1_code(numbers[i] * factor) << (i % 8 * 4);
    }
  }

  __device__ __forceinline__ void store(uint8_t* to) const {
    if constexpr (words == 4) {
      *reinterpret_cast<uint4*>(to) = {word[0], word[1], word[2], word[3]};
    } else {
      *reinterpret_cast<uint2*>(to) = {word[0], word[1]};
    }
  }
};

__device__ __forceinline__ uint32_t largest_magnitude(const float (&numbers)[kLaneElements]) {
  uint32_t largest = 0;  // as bits, which order magnitudes as the numbers are, NaN above all
#pragma unroll
  for (const float number : numbers) largest = max(largest, bits_of(number) & 0x7fffffffu);
  return largest;
}

// What quantize needs of a problem, once a thread.
template <Format kFormat>
struct Scaling {
  float global = 1, inverse = 1;
  ScaleRounding rounding;

  __device__ __forceinline__ explicit Scaling(const QuantizeProblem& problem) : rounding(problem.rounding) {
    if (kFormat == Format::kNvfp4 && problem.global_scale != nullptr) {
      global = *problem.global_scale;
      inverse = 1.0f / global;
    }
  }

  __device__ __forceinline__ BlockScale of(float amax) const {
    if constexpr (kFormat == Format::kNvfp4) return nvfp4_scale(amax, global, inverse);
    return e8m0_scale<info(kFormat).element>(amax, rounding);
  }
};

template <Format kFormat, typename Element>
__global__ void __launch_bounds__(kWalkWarps * 32) quantize(const __grid_constant__ QuantizeProblem problem) {
  constexpr FormatInfo format = info(kFormat);
  constexpr int lanes_per_block = format.vec / kLaneElements;
  constexpr uint8_t scale_nan = format.scale == ScaleType::kE8M0 ? kE8M0NaN : kE4M3NaN;
  const Scaling<kFormat> scaling(problem);
  const int64_t cols = problem.k / format.vec;
  const ScaleStrides packed = packed_scales(cols);
  const int64_t padded_rows = scale_row_blocks(problem.rows) * kScaleBlockRows;
  const int64_t padded_k = scale_col_blocks(cols) * kScaleBlockCols * format.vec;
  const auto* x = static_cast<const Element*>(problem.x);
  constexpr int64_t vector_elements = 16 / int64_t{sizeof(Element)};
  const bool vectors =
      problem.stride_k == 1 && problem.stride_row % vector_elements == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;

  walk_rows(padded_rows, padded_k, [&](int64_t row, int64_t k) {
    float numbers[kLaneElements] = {};
    const bool inside = row < problem.rows && k < problem.k;
    if (inside) load_numbers(x + row * problem.stride_row + k * problem.stride_k, problem.stride_k, vectors, numbers);
    uint32_t amax = largest_magnitude(numbers);
    if constexpr (lanes_per_block == 2) amax = max(amax, __shfl_xor_sync(0xffffffffu, amax, 1));
    if (k >= padded_k) return;
    BlockScale scale = scaling.of(float_of(amax));
    LaneCodes<format.element> codes;
    if (is_finite_amax(amax)) {
      codes.encode(numbers, scale.factor);
    } else {
      scale.byte = scale_nan;
    }
    if (inside) codes.store(problem.data + (row * problem.k + k) / elements_per_byte(format.element));
    if (k % format.vec == 0) problem.scale[packed.offset(row, k / format.vec)] = inside ? scale.byte : 0;
  });
}

template <Format kFormat, typename Element>
void launch_quantize(const QuantizeProblem& problem, cudaStream_t stream) {
  launch_row_walk<&quantize<kFormat, Element>>(problem, scale_row_blocks(problem.rows) * kScaleBlockRows,
                                               scale_col_blocks(problem.cols()) * kScaleBlockCols * info(kFormat).vec,
                                               stream);
}

template <Format kFormat>
void launch_quantize(const QuantizeProblem& problem, cudaStream_t stream) {
  switch (problem.dtype) {
    case DType::kFloat16:
      return launch_quantize<kFormat, __half>(problem, stream);
    case DType::kBFloat16:
      return launch_quantize<kFormat, __nv_bfloat16>(problem, stream);
    default:
      return launch_quantize<kFormat, float>(problem, stream);
  }
}

}  // namespace

void run_quantize(const QuantizeProblem& problem, cudaStream_t stream) {
  switch (problem.format) {
    case Format::kMxfp8:
      return launch_quantize<Format::kMxfp8>(problem, stream);
    case Format::kMxfp4:
      return launch_quantize<Format::kMxfp4>(problem, stream);
    case Format::kNvfp4:
      return launch_quantize<Format::kNvfp4>(problem, stream);
  }
}

}  // namespace tileon
