// From codes to the elements that are multiplied, in the order of k that costs least: which one it is does not matter,
// as long as both operands have it.
//
// Every number is exact. Elements are bfloat16, which has float32's range (common/decode.cuh says where it does
// not suffice), and of nvfp4, whose scales span little, float16, unless it is beside bfloat16: less work for a scale.
// Beside float16 they are that (direct_products.cuh says where it does not suffice under scales of e8m0). Codes of 8
// bits whose float32 scales multiply sums become what the operand beside them is, which holds them all.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "core/small_floats.h"
#include "cuda/common/decode.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/moved_scale.cuh"

namespace tileon::sm90 {

// Of the operands a and b; symmetric.
template <DType kA, DType kB, ScaleType kScale>
using ElementOf = std::conditional_t<(kScale != ScaleType::kE8M0 && kA != DType::kBFloat16 && kB != DType::kBFloat16) ||
                                         kA == DType::kFloat16 || kB == DType::kFloat16,
                                     __half, __nv_bfloat16>;

// ---- e2m1: sign, exponent and mantissa moved to where the element has its own, subnormals included ----

// Eight codes times 2^-126, those of a pair four apart. A factor copies a code to where its sign goes and to where the
// rest goes.
__device__ __forceinline__ uint4 move_e2m1_to_bfloat16(uint32_t codes) {
  constexpr uint32_t kToSign = 0x1000, kToMagnitude = 0x40;  // from a half's lowest four bits
  const auto lowest = [](uint32_t pair) { return (pair & 0x000f000f) * (kToSign + kToMagnitude) & 0x81c081c0; };
  const auto second = [](uint32_t pair) { return (pair & 0x00f000f0) * ((kToSign + kToMagnitude) / 16) & 0x81c081c0; };
  return {lowest(codes), second(codes), lowest(codes >> 8), second(codes >> 8)};
}

// Eight codes times 2^-14, those of a pair two apart: the even ones, then the odd ones, as float16 without its low
// byte.
__device__ __forceinline__ uint4 move_e2m1_to_float16(uint32_t codes) {
  const auto at = [](uint32_t signs, uint32_t magnitudes) { return (signs & 0x80808080) | (magnitudes & 0x0e0e0e0e); };
  const uint32_t even = at(codes * 0x10, codes * 2), odd = at(codes, codes >> 3);
  return {ptx::prmt(even, 0, 0x1404), ptx::prmt(even, 0, 0x3424), ptx::prmt(odd, 0, 0x1404), ptx::prmt(odd, 0, 0x3424)};
}

template <typename Element>
__device__ __forceinline__ uint4 move_e2m1(uint32_t codes) {
  return std::is_same_v<Element, __half> ? move_e2m1_to_float16(codes) : move_e2m1_to_bfloat16(codes);
}

template <typename Scale>
__device__ __forceinline__ uint4 multiply(const Scale& scale, const uint4& pairs) {
  return {scale.multiply(pairs.x), scale.multiply(pairs.y), scale.multiply(pairs.z), scale.multiply(pairs.w)};
}

template <typename Scale>
__device__ __forceinline__ uint4 multiply_rest(const Scale& scale, const uint4& pairs) {
  return {scale.multiply_rest(pairs.x), scale.multiply_rest(pairs.y), scale.multiply_rest(pairs.z),
          scale.multiply_rest(pairs.w)};
}

// ---- e4m3 ----

// Eight codes times their scale. Those of a pair are neighbours or, beside an operand of e2m1, four apart.
template <bool kBesideE2M1>
__device__ __forceinline__ uint4 scaled_e4m3(uint32_t first, uint32_t second, uint32_t scale) {
  const uint32_t neighbours[2] = {first, second};
  const uint32_t apart[2] = {ptx::prmt(first, second, 0x5140), ptx::prmt(first, second, 0x7362)};
  uint4 elements[1];
  decode_e4m3<ScaleType::kE8M0>(kBesideE2M1 ? apart : neighbours, scale, elements);
  return elements[0];
}

// ---- codes of 8 bits without scales ----

// Eight codes.
template <typename Element, DType kCode>
__device__ __forceinline__ uint4 converted_codes(uint32_t first, uint32_t second) {
  uint4 pairs;
  convert_codes<Element, kCode>(first, pairs.x, pairs.y);
  convert_codes<Element, kCode>(second, pairs.z, pairs.w);
  return pairs;
}

// ---- 16 bits ----

// Eight elements. Those of a pair are neighbours or, beside an operand of e2m1, as move_e2m1 has them.
template <typename Element, bool kBesideE2M1>
__device__ __forceinline__ uint4 in_pairs(const uint32_t* eight) {
  const auto even = [&](int i, int j) { return ptx::prmt(eight[i], eight[j], 0x5410); };
  const auto odd = [&](int i, int j) { return ptx::prmt(eight[i], eight[j], 0x7632); };
  if (!kBesideE2M1) return {eight[0], eight[1], eight[2], eight[3]};
  if (std::is_same_v<Element, __half>) return {even(0, 1), even(2, 3), odd(0, 1), odd(2, 3)};
  return {even(0, 2), odd(0, 2), even(1, 3), odd(1, 3)};
}

// ---- a chunk of any ----

// What goes with sixteen bytes of b: chunk() elements (heuristics/small_m.h) of one operand, and their scales.
template <DType kElement, DType kOther, ScaleType kScale, int kElements>
class Chunk {
  using Element = ElementOf<kElement, kOther, kScale>;
  using Scale = MovedScale<Element, kScale>;
  static constexpr bool kScalesMultiplySums = kScale == ScaleType::kFloat32;

  static constexpr float lacked_factor() {
    if constexpr (kElement == DType::kFloat4E2M1) return Scale::kLackedFactor;
    return 1.0f;
  }

 public:
  static constexpr int kWords = kElements * SmallMFormat::bits(kElement) / 32;
  static constexpr int kEights = kElements / 8;
  static constexpr int kScales = kElements > vec_of(kScale) ? kElements / vec_of(kScale) : 1;
  static constexpr bool has_e2m1 = kElement == DType::kFloat4E2M1 || kOther == DType::kFloat4E2M1;
  static constexpr float kLackedFactor = lacked_factor();

  uint32_t codes[kWords];
  uint32_t scales[kScales];

  // Only the first `count` lie inside k.
  __device__ __forceinline__ void keep_scales(int count) {
    if (count >= kScales) return;
#pragma unroll
    for (int i = 0; i < kScales; ++i)
      if (i >= count) scales[i] = 0;
  }

  // Whether bfloat16 loses something of it. Without a scale that is NaN alone.
  __device__ __forceinline__ bool is_lossy() const {
    if constexpr (kElement == DType::kFloat8E4M3 && std::is_same_v<Element, __nv_bfloat16>)
      return is_beyond_bfloat16(codes, kScalesMultiplySums ? kE8M0One : scales[0]);
    return false;
  }

  __device__ __forceinline__ bool has_large_scale() const {
    bool any = false;
    if constexpr (kElement == DType::kFloat4E2M1) {
#pragma unroll
      for (const uint32_t scale : scales) any |= Scale(scale).is_large();
    }
    return any;
  }

  // Elements 8 i to 8 i + 7, times their scale, of which a large one needs `finish` besides.
  __device__ __forceinline__ uint4 decode(int i) const {
    if constexpr (kScalesMultiplySums && SmallMFormat::bits(kElement) == 8) {
      return converted_codes<Element, kElement>(codes[2 * i], codes[2 * i + 1]);
    } else if constexpr (kElement == DType::kFloat8E4M3) {
      return scaled_e4m3<has_e2m1>(codes[2 * i], codes[2 * i + 1], scales[0]);
    } else if constexpr (SmallMFormat::bits(kElement) == 16) {
      return in_pairs<Element, has_e2m1>(codes + 4 * i);
    } else {
      return multiply(scale_of(i), move_e2m1<Element>(codes[i]));
    }
  }

  // Does nothing where the scale is not large.
  __device__ __forceinline__ void finish(int i, uint4& eight) const {
    if constexpr (kElement == DType::kFloat4E2M1) eight = multiply_rest(scale_of(i), eight);
  }

 private:
  __device__ __forceinline__ Scale scale_of(int i) const { return Scale(scales[i * kScales / kEights]); }
};

// ---- mxfp4 by way of e5m2: half the decoding, and exact too ----
//
// a's scale goes into a's elements: e5m2 holds every code times 27 powers of two. b's elements are its codes times
// 2^-14, and b's scale multiplies the sum of each block in float32. That sum is exact: within a block of a all numbers
// have one step. Where a scale of a is outside of the 27, or a scale of b too extreme to be a factor, bfloat16 takes
// the whole product.

// Scales of a from 2^-17 to 2^9: elements of activations, mostly.
constexpr uint32_t kFloat8LeastScale = 127 - 17;
constexpr uint32_t kFloat8MostScale = kFloat8LeastScale + kFloat8Binades;
constexpr uint32_t kFloat8MiddleScale = kFloat8LeastScale + kFloat8Binades / 2;  // 2^-4, of which elements lack nothing

// What sums lack: b's 2^14, and of a the middle scale.
constexpr float kFloat8Factor = 0x1p14f * 0x1p-4f;
static_assert(kFloat8MiddleScale == 127 - 4);

// Codes as e5m2 times a power of two: their magnitudes, looked up. e5m2 holds 2^-13 to 2^13 times every code.
class Float8Table {
 public:
  __device__ __forceinline__ explicit Float8Table(int exponent) {
    const uint32_t added = static_cast<uint32_t>(exponent) * 4;  // modulo 2^32
    low_ = 0x3e3c3800 + added * 0x010101 * 0x100;                // 0, 0.5, 1, 1.5
    high_ = 0x46444240 + added * 0x01010101;                     // 2, 3, 4, 6
  }

  // The even codes of eight, and the odd ones.
  __device__ __forceinline__ void decode(uint32_t codes, uint32_t& even, uint32_t& odd) const {
    const uint32_t magnitudes = codes & 0x77777777;
    const uint32_t first = ptx::prmt(low_, high_, magnitudes), second = ptx::prmt(low_, high_, magnitudes >> 16);
    even = ptx::prmt(first, second, 0x6420) | (codes << 4 & 0x80808080);
    odd = ptx::prmt(first, second, 0x7531) | (codes & 0x80808080);
  }

 private:
  uint32_t low_, high_;
};

// The exponent of a scale's table (Float8Table); scales outside of e5m2's get the nearest one.
__device__ __forceinline__ int float8_exponent(uint32_t scale) {
  return static_cast<int>(min(max(scale, kFloat8LeastScale), kFloat8MostScale) - kFloat8MiddleScale);
}

// Whether e5m2 loses something of a block under this scale.
__device__ __forceinline__ bool is_beyond_float8(const uint32_t (&codes)[4], uint32_t scale) {
  if (scale >= kFloat8LeastScale && scale <= kFloat8MostScale) return false;
  return scale == kE8M0NaN || ((codes[0] | codes[1] | codes[2] | codes[3]) & 0x77777777) != 0;
}

// b's scales that are factors of their block's sum, whatever its codes are. From 2^-120 on every product is a multiple
// of 2^-139, and of 2^-149 while sums lack kFloat8Factor; up to 2^125 no element times its scale is too large for
// float32.
constexpr uint32_t kFirstFactor = 127 - 120;
constexpr uint32_t kLastFactor = 127 + 125;
static_assert(kFloat8Factor == 0x1p10f &&
              -1 - 1 + (int{kFloat8LeastScale} - 127) + (int{kFirstFactor} - 127) == -149 + 10);

__device__ __forceinline__ bool is_factor(uint32_t scale) { return scale - kFirstFactor <= kLastFactor - kFirstFactor; }

// The even codes of eight times 2^-14, and the odd ones: exponent and mantissa moved to where e5m2 has its own,
// subnormals included.
__device__ __forceinline__ void move_e2m1_to_e5m2(uint32_t codes, uint32_t& even, uint32_t& odd) {
  even = (codes * 0x10 & 0x80808080) | (codes * 2 & 0x0e0e0e0e);
  odd = (codes & 0x80808080) | (codes >> 3 & 0x0e0e0e0e);
}

}  // namespace tileon::sm90
