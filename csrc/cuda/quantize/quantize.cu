// Numbers to codes and packed scales, in one pass.
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "../../block_quantize.h"
#include "../output/convert.cuh"
#include "../ptx/max_nan.cuh"
#include "e2m1_codes.cuh"
#include "quantize.h"
#include "row_walk.cuh"

namespace tileon {
namespace {

constexpr int kLaneElements = 16;

// A lane's numbers as they are in memory.
template <typename Element>
struct alignas(16) LaneNumbers {
  Element numbers[kLaneElements];

  __device__ __forceinline__ void load(const Element* from, int64_t stride, bool vectors) {
    if (vectors) {
      *this = *reinterpret_cast<const LaneNumbers*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) numbers[i] = from[i * stride];
    }
  }
};

// The codes of a lane's numbers: two words of e2m1, four of e4m3.
template <ElementType kElement>
struct LaneCodes {
  static constexpr int words = kElement == ElementType::kE4M3 ? 4 : 2;
  uint32_t word[words] = {};

  // `kExact`: the factor is a power of two.
  template <bool kExact, typename Element>
  __device__ __forceinline__ void encode(const LaneNumbers<Element>& lane, float amax, float factor) {
    if constexpr (kElement == ElementType::kE4M3) {
#pragma unroll
      for (int i = 0; i < kLaneElements; i += 2) {
        const float2 pair{widen(lane.numbers[i]) * factor, widen(lane.numbers[i + 1]) * factor};
        word[i / 4] |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)) << (i % 4 * 8);
      }
    } else {
      const bool may_saturate = amax * fabsf(factor) > kE2M1Max + 0.5f;
      const uint32_t flipped = bits_of(factor) >> 31 ? 0x88888888u : 0;
#pragma unroll
      for (int begin = 0; begin < kLaneElements; begin += 8) {
        float magnitudes[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) magnitudes[i] = fabsf(widen(lane.numbers[begin + i]) * factor);
        const uint32_t codes =
            kExact && sizeof(Element) == 2 ? e2m1_codes_of_float16(magnitudes) : e2m1_codes(magnitudes, may_saturate);
        word[begin / 8] = codes | ((sign_bits(lane.numbers + begin) ^ flipped) & 0x88888888u);
      }
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

// The largest magnitude of a lane's numbers; NaN where one of them is.
__device__ __forceinline__ float lane_amax(const LaneNumbers<float>& lane) {
  float amax = 0;
#pragma unroll
  for (const float number : lane.numbers) amax = ptx::max_nan(amax, fabsf(number));
  return amax;
}

// Two at a time.
template <typename Element>
__device__ __forceinline__ float lane_amax(const LaneNumbers<Element>& lane) {
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
  const auto* pairs = reinterpret_cast<const Pair*>(lane.numbers);
  Pair amax = __habs2(pairs[0]);
#pragma unroll
  for (int i = 1; i < kLaneElements / 2; ++i) amax = __hmax2_nan(amax, __habs2(pairs[i]));
  return widen(__hmax_nan(amax.x, amax.y));
}

// Of a block, in all of its lanes.
template <int kLanesPerBlock, typename Element>
__device__ __forceinline__ float block_amax(const LaneNumbers<Element>& lane) {
  float amax = lane_amax(lane);
#pragma unroll
  for (int apart = 1; apart < kLanesPerBlock; apart *= 2)
    amax = ptx::max_nan(amax, __shfl_xor_sync(0xffffffffu, amax, apart));
  return amax;
}

// nvfp4_scale of block_quantize.h by the processor's own conversions.
__device__ __forceinline__ BlockScale fast_nvfp4_scale(float amax, float global, float inverse) {
  // amax / 6 as IEEE rounds it: the quotient's error is exact, and corrects it. Not among the smallest numbers, which
  // the clamp makes one.
  constexpr float sixth = 1.0f / kE2M1Max;
  const float quotient = amax * sixth;
  float relative = fmaf(fmaf(-kE2M1Max, quotient, amax), sixth, quotient);
  if (global != 1.0f) relative = amax / kE2M1Max / global;
  if (relative < kE4M3MinNormal) relative = kE4M3MinNormal;  // NaN stays
  const auto byte = static_cast<uint8_t>(__nv_cvt_float_to_fp8(relative, __NV_SATFINITE, __NV_E4M3) & 0x7f);
  const float scale = __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
  const float factor = inverse / scale;
  const bool is_finite = (bits_of(factor) & 0x7fffffffu) < 0x7f800000u;
  return {byte, is_finite ? factor : 0.0f};
}

// What makes a block's scale of its largest magnitude, once a thread.
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
    if constexpr (kFormat == Format::kNvfp4) return fast_nvfp4_scale(amax, global, inverse);
    return e8m0_scale<info(kFormat).element>(amax, rounding);
  }
};

template <Format kFormat, typename Element>
__global__ void __launch_bounds__(kWalkWarps * 32) quantize(const __grid_constant__ QuantizeProblem problem) {
  constexpr FormatInfo format = info(kFormat);
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
  const auto is_inside = [&](int64_t row, int64_t k) { return row < problem.rows && k < problem.k; };

  LaneNumbers<Element> lanes[kSpans<kLaneElements>];
  const auto load = [&](int64_t row, int64_t k, int span) {
    lanes[span] = {};
    if (is_inside(row, k))
      lanes[span].load(x + row * problem.stride_row + k * problem.stride_k, problem.stride_k, vectors);
  };
  walk_rows<kLaneElements>(padded_rows, padded_k, load, [&](int64_t row, int64_t k, int span) {
    const float amax = block_amax<format.vec / kLaneElements>(lanes[span]);
    if (k >= padded_k) return;
    BlockScale scale = scaling.of(amax);
    LaneCodes<format.element> codes;
    if (is_finite_amax(bits_of(amax))) {
      codes.template encode<format.scale == ScaleType::kE8M0>(lanes[span], amax, scale.factor);
    } else {
      scale.byte = scale_nan;
    }
    const bool inside = is_inside(row, k);
    if (inside) codes.store(problem.data + (row * problem.k + k) / elements_per_byte(format.element));
    if (k % format.vec == 0) problem.scale[packed.offset(row, k / format.vec)] = inside ? scale.byte : 0;
  });
}

template <Format kFormat, typename Element>
void launch_quantize(const QuantizeProblem& problem, cudaStream_t stream) {
  launch_row_walk<&quantize<kFormat, Element>, kLaneElements>(
      problem, scale_row_blocks(problem.rows) * kScaleBlockRows,
      scale_col_blocks(problem.cols()) * kScaleBlockCols * info(kFormat).vec, stream);
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
