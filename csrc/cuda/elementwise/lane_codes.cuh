// A lane's share of a row as codes of e2m1 or e4m3, and the scales of nvfp4, by the processor's own conversions.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "core/block_quantize.h"
#include "cuda/common/convert.cuh"
#include "cuda/elementwise/lane_numbers.cuh"
#include "cuda/ptx/convert.cuh"

namespace tileon {

// The codes of e2m1_code (small_floats.h), eight at a time and in fewer instructions: as much as can be in float32's or
// float16's arithmetic, which has twice the rate of the integers'.
//
// Magnitudes come as eighths, cut off at 1 (which costs nothing, as part of a multiplication): then no code is above 8,
// and an 8, which stands for all that is too large, leaves its neighbours alone until it becomes 7.

// Adding 2^22 to a number rounds it to a multiple of 1/2 and leaves its count of halves at the bottom of the sum.
constexpr float k2To22 = 4194304.0f;

// 2^22 plus half the code. Where e2m1 has steps of 1/2, the code is the count of halves; where its steps are 1, the
// count of ones plus two; where they are 2, the count of twos plus four. The code is the smallest of these.
__device__ __forceinline__ float e2m1_sum(float eighths) {
  const float halves = fmaf(eighths, 8.0f, k2To22);
  const float ones = fmaf(eighths, 4.0f, k2To22 + 1.0f);
  const float twos = fmaf(eighths, 2.0f, k2To22 + 2.0f);
  return fminf(fminf(halves, ones), twos);
}

// Eight codes, of which 8 becomes 7.
__device__ __forceinline__ uint32_t cut_off(uint32_t codes) {
  return (codes - ((codes & 0x88888888u) >> 3)) & 0x77777777u;
}

// The codes of eight magnitudes, the first in the lowest bits.
__device__ __forceinline__ uint32_t e2m1_codes(const float (&eighths)[8]) {
  // the sum's own upper bits, which are the same for all, have moved as far as they are still in the word
  constexpr uint32_t sum = 0x4a800000u, moved = sum + (sum << 4) + (sum << 8);
  uint32_t word = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) word = word * 16 + bits_of(e2m1_sum(eighths[i]));
  return cut_off(word - moved);
}

// e2m1_codes in float16's arithmetic, two magnitudes at a time, for numbers of 16 bits times a power of two, whose
// eighths float16 holds where it matters. float16 has steps of 1/2 from 2^9 on.
__device__ __forceinline__ uint32_t e2m1_codes_of_float16(const float (&eighths)[8]) {
  const auto both = [](float value) { return __float2half2_rn(value); };
  constexpr uint32_t sum = 0x60006000u, moved = sum + (sum << 4) + (sum << 8) + (sum << 12);
  uint32_t word = 0;
#pragma unroll
  for (int i = 3; i >= 0; --i) {
    const __half2 pair = __floats2half2_rn(eighths[i], eighths[i + 4]);
    const __half2 halves = __hfma2(pair, both(8.0f), both(512.0f));
    const __half2 ones = __hfma2(pair, both(4.0f), both(513.0f));
    const __half2 twos = __hfma2(pair, both(2.0f), both(514.0f));
    const __half2 sums = __hmin2(__hmin2(halves, ones), twos);
    word = word * 16 + *reinterpret_cast<const uint32_t*>(&sums);
  }
  return cut_off(word - moved);
}

// Bit 4 i + 3 is the sign of number i of eight; the other bits are anything.
__device__ __forceinline__ uint32_t sign_bits(const float* numbers) {
  uint32_t signs = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) signs = signs >> 4 | (bits_of(numbers[i]) & 0x80000000u);
  return signs;
}

// sign_bits of numbers of 16 bits, two in a word.
template <typename Element>
__device__ __forceinline__ uint32_t sign_bits(const Element* numbers) {
  const auto* words = reinterpret_cast<const uint32_t*>(numbers);
  // a byte of signs for each even number, then for each odd one
  const uint32_t even = ptx::prmt(ptx::prmt(words[0], words[1], 0xd9d9), ptx::prmt(words[2], words[3], 0xd9d9), 0x5410);
  const uint32_t odd = ptx::prmt(ptx::prmt(words[0], words[1], 0xfbfb), ptx::prmt(words[2], words[3], 0xfbfb), 0x5410);
  return (even & 0x0f0f0f0fu) | (odd & 0xf0f0f0f0u);
}

// The codes of a lane's numbers: two words of e2m1, four of e4m3.
template <DType kElement>
struct LaneCodes {
  static constexpr int words = kElement == DType::kFloat8E4M3 ? 4 : 2;
  uint32_t word[words] = {};

  // `kExact`: the factor is a power of two. `magnitudes.two(i)` are those of `lane`.
  template <bool kExact, typename Element, typename Magnitudes>
  __device__ __forceinline__ void encode(const LaneNumbers<Element>& lane, const Magnitudes& magnitudes, float factor) {
    if constexpr (kElement == DType::kFloat8E4M3) {
#pragma unroll
      for (int i = 0; i < kLaneElements / 2; ++i) {
        const float2 two = lane.two(i);
        const float2 scaled{two.x * factor, two.y * factor};
        word[i / 2] |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, __NV_E4M3))
                       << (i % 2 * 16);
      }
    } else {
      const float eighth = fabsf(factor) * 0.125f;
      const uint32_t flipped = bits_of(factor) >> 31 ? 0x88888888u : 0;
#pragma unroll
      for (int w = 0; w < words; ++w) {
        float eighths[8];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 two = magnitudes.two(4 * w + i);
          eighths[2 * i] = __saturatef(two.x * eighth);
          eighths[2 * i + 1] = __saturatef(two.y * eighth);
        }
        const uint32_t codes = kExact && sizeof(Element) == 2 ? e2m1_codes_of_float16(eighths) : e2m1_codes(eighths);
        word[w] = codes | ((sign_bits(lane.numbers + 8 * w) ^ flipped) & 0x88888888u);
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

  // Code times scale. Element holds it but at the end of float16's range, where it is the largest number.
  template <typename Element>
  __device__ __forceinline__ LaneNumbers<Element> numbers(float scale) const {
    LaneNumbers<Element> lane;
#pragma unroll
    for (int i = 0; i < kLaneElements / 2; ++i) {
      const float2 pair = two(i);
      reinterpret_cast<uint32_t*>(lane.numbers)[i] =
          round_pair<Element>(bounded<Element>(pair.x * scale), bounded<Element>(pair.y * scale));
    }
    return lane;
  }

 private:
  // Codes 2 i and 2 i + 1 as numbers.
  __device__ __forceinline__ float2 two(int i) const {
    if constexpr (kElement == DType::kFloat8E4M3) {
      const auto codes = static_cast<__nv_fp8x2_storage_t>(word[i / 2] >> (i % 2 * 16));
      return widen(__half2(__nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3)));
    } else {
      // the bits of e2m1 where float16 has its own: its exponents are 14 less then
      const uint32_t codes = word[i / 4] >> (i % 4 * 8);
      const uint32_t halves =
          (codes & 0x7u) << 9 | (codes & 0x8u) << 12 | (codes & 0x70u) << 21 | (codes & 0x80u) << 24;
      const float2 numbers = widen(*reinterpret_cast<const __half2*>(&halves));
      return {numbers.x * 0x1p14f, numbers.y * 0x1p14f};
    }
  }

  template <typename Element>
  static __device__ __forceinline__ float bounded(float number) {
    if constexpr (!std::is_same_v<Element, __half>) return number;
    return fabsf(number) > 65504.0f ? copysignf(65504.0f, number) : number;  // NaN stays
  }
};

// What a scale's byte is as a number.
template <ScaleType kScale>
__device__ __forceinline__ float scale_value(uint8_t byte) {
  if constexpr (kScale == ScaleType::kE8M0) return e8m0_value(byte);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

// 1 / scale for a scale of e4m3 that is normal, as IEEE rounds it. No quotient of so short a number lies near the
// middle of two float32, so that one step from the processor's estimate, which has all but the last bit, comes to the
// right one.
__device__ __forceinline__ float inverse_of_scale(float scale) {
  const float estimate = ptx::reciprocal(scale);
  return fmaf(fmaf(-scale, estimate, 1.0f), estimate, estimate);
}

// amax / 6 as IEEE rounds it: the quotient's error is exact, and corrects it. Not among the smallest numbers, which the
// clamp of nvfp4's scales makes one.
__device__ __forceinline__ float sixth_of(float amax) {
  constexpr float sixth = 1.0f / kE2M1Max;
  const float quotient = amax * sixth;
  return fmaf(fmaf(-kE2M1Max, quotient, amax), sixth, quotient);
}

// A scale of e4m3 from nvfp4's clamp on, and its value.
struct E4M3Scale {
  uint8_t byte;
  float value;
};

__device__ __forceinline__ E4M3Scale e4m3_scale(float relative) {
  if (relative < kE4M3MinNormal) relative = kE4M3MinNormal;  // NaN stays
  const auto byte = static_cast<uint8_t>(__nv_cvt_float_to_fp8(relative, __NV_SATFINITE, __NV_E4M3) & 0x7f);
  return {byte, scale_value<ScaleType::kE4M3>(byte)};
}

// nvfp4_scale of block_quantize.h by the processor's own conversions.
__device__ __forceinline__ BlockScale fast_nvfp4_scale(float amax, float global, float inverse) {
  float relative = sixth_of(amax);
  if (global != 1.0f) relative = amax / kE2M1Max / global;
  const auto [byte, scale] = e4m3_scale(relative);
  if (global == 1.0f) return {byte, inverse_of_scale(scale)};
  const float factor = 0.125f * (inverse / scale) * 8.0f;
  const bool is_finite = (bits_of(factor) & 0x7fffffffu) < 0x7f800000u;
  return {byte, is_finite ? factor : 0.0f};
}

}  // namespace tileon
