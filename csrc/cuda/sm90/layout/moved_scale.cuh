// The scales of codes whose bits were moved to where an element of 16 bits has its own: the moved code is the element
// times a small power of two, which comes back with the scale. Every product of e2m1 is exact, as float16 but those
// under a scale that is told (may_lose); of e4m3, those under scales from 2^-124 on.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "core/small_floats.h"
#include "cuda/common/decode.cuh"
#include "cuda/ptx/convert.cuh"

namespace tileon::sm90 {

// What moved codes are multiplied by, and the factor that the elements then lack.
template <typename Element, ScaleType kScale>
class MovedScale;

// Whether all scales of a word, of e4m3, are normal, positive and no NaN.
__device__ __forceinline__ bool are_plain_e4m3(uint32_t bytes) {
  const uint32_t normal = (bytes & 0x78787878) + 0x78787878, other = bytes | ((bytes & 0x7f7f7f7f) + 0x01010101);
  return (normal & ~other & 0x80808080) == 0x80808080;
}

// 2^126 times a power of two may be more than bfloat16 holds, so that it takes two multiplications where the scale is
// above 2.
template <>
class MovedScale<__nv_bfloat16, ScaleType::kE8M0> {
  static constexpr uint32_t kMaxAtOnce = 128;

 public:
  static constexpr float kLackedFactor = 1.0f;
  static constexpr bool may_lose_any = false;

  // Whether all scales of a word, of which `mask` has the bytes' bits, are ordinary: below 2. One multiplication by
  // `ordinary`, of a scale in both halves, is all then.
  static __device__ __forceinline__ bool are_ordinary(uint32_t bytes, uint32_t mask) {
    return (bytes & 0x80808080 & mask) == 0;
  }
  static __device__ __forceinline__ uint32_t ordinary(uint32_t pair) { return pair * 0x80 + 126 * 0x00800080; }

  __device__ __forceinline__ explicit MovedScale(uint32_t byte)
      : first_(min(byte, kMaxAtOnce) * 0x00800080 + 126 * 0x00800080), byte_(byte) {}

  __device__ __forceinline__ bool is_large() const { return byte_ > kMaxAtOnce; }
  __device__ __forceinline__ uint32_t multiply(uint32_t pair) const { return multiply_pair(pair, first_); }
  // What is left where a scale is large.
  __device__ __forceinline__ uint32_t multiply_rest(uint32_t pair) const {
    const uint32_t rest = byte_ == kE8M0NaN ? 0x7fc0 : (max(byte_, kMaxAtOnce) - kMaxAtOnce + 127) << 7;
    return multiply_pair(pair, ptx::prmt(rest, 0, 0x1010));
  }

 private:
  uint32_t first_, byte_;
};

// 2^14 times a scale, which moved codes lack, and 2^kRaised, by which more of small scales lies within float16.
// Products are aligned by the exponents of their elements, where a subnormal element counts as 2^-14: a sum loses the
// bits by which an element lies below 2^-14.
template <int kRaised>
class RaisedFloat16Scale {
 public:
  // Under these float16 holds all elements; under two more those that are below 2^(16 - kRaised), others are infinite.
  static constexpr uint32_t kFirst = 127 - 16 - kRaised, kLast = 127 + 13 - kRaised;
  static __device__ __forceinline__ bool holds(uint32_t byte) { return byte - kFirst <= kLast - kFirst; }

 private:
  static constexpr uint32_t kFirstAtOnce = 127 - 14 - kRaised, kAtOnce = 16;  // scales that are one factor
  static constexpr uint32_t kMaxAtOnce = kFirstAtOnce + kAtOnce - 1;
  static constexpr uint32_t kToExponent = static_cast<uint32_t>(14 + kRaised + 15 - 127);  // from a scale's byte
  static_assert(int{kMaxAtOnce} - 127 + 14 + kRaised == 15, "the largest power of two of float16");
  static_assert(6.0f * 0x1p13f <= 65504.0f && 0.5f * 0x1p-16f >= 0x1p-14f / 8,
                "the largest element, and the least, of which a sum loses three bits");

 public:
  static constexpr float kLackedFactor = 1.0f / (1 << kRaised);
  static constexpr bool may_lose_any = true;

  // Whether all scales of a word, of which `mask` has the bytes' bits, are ordinary: from 2^(-14 - kRaised) to
  // 2^(1 - kRaised). One multiplication by `ordinary`, of a scale in both halves, is all then, and float16 loses at
  // most one bit of a sum.
  static __device__ __forceinline__ bool are_ordinary(uint32_t bytes, uint32_t mask) {
    constexpr uint32_t to_multiple = (kAtOnce - kFirstAtOnce % kAtOnce) % kAtOnce;
    const uint32_t in_sixteens = bytes + to_multiple * 0x01010101;
    return ((in_sixteens ^ (kFirstAtOnce + to_multiple) * 0x01010101) & 0xf0f0f0f0 & mask) == 0;
  }
  static __device__ __forceinline__ uint32_t ordinary(uint32_t pair) { return pair * 0x400 + kToExponent * 0x04000400; }

  // A scale that is too small or too large for float16 counts as the nearest one that is not.
  __device__ __forceinline__ explicit RaisedFloat16Scale(uint32_t byte) : byte_(byte) {}

  __device__ __forceinline__ uint32_t multiply(uint32_t pair) const {
    return multiply_pair<__half>(pair, ordinary(min(max(byte_, kFirst), kMaxAtOnce) * 0x00010001));
  }
  // What is left where a scale is large, or NaN.
  __device__ __forceinline__ uint32_t multiply_rest(uint32_t pair) const {
    const uint32_t above = min(max(byte_, kMaxAtOnce), kLast + 2) - kMaxAtOnce;
    const uint32_t rest = byte_ == kE8M0NaN ? 0x7e00 : (above + 15) << 10;
    return multiply_pair<__half>(pair, ptx::prmt(rest, 0, 0x1010));
  }
  // Whether float16 may lose something of codes.
  __device__ __forceinline__ bool may_lose(uint32_t codes) const {
    return !holds(byte_) && byte_ != kE8M0NaN && (codes & 0x77777777) != 0;
  }

 private:
  uint32_t byte_;
};

template <>
class MovedScale<__half, ScaleType::kE8M0> : public RaisedFloat16Scale<1> {
 public:
  using RaisedFloat16Scale::RaisedFloat16Scale;
};

// 2^7 times a scale, the most that float16 holds of every scale. Of elements under scales from 2^-6 on a sum loses no
// bits, of others at most three.
template <>
class MovedScale<__half, ScaleType::kE4M3> {
 public:
  static constexpr float kFactor = 0x1p7f, kLackedFactor = 0x1p14f / kFactor;
  static constexpr bool may_lose_any = false;
  static_assert(kE4M3Max * kFactor <= 65504.0f && 0.5f * kE4M3MinNormal * kFactor * 0x1p-14f >= 0x1p-14f);

  // Whether all four scales of a word are ordinary. Then a scale's bits, moved by seven, need but another exponent.
  static __device__ __forceinline__ bool are_ordinary(uint32_t bytes, uint32_t) { return are_plain_e4m3(bytes); }
  static __device__ __forceinline__ uint32_t ordinary(uint32_t pair) {
    constexpr uint32_t exponent = 7 + 15 - 7;
    return pair * 0x80 + exponent * 0x04000400;
  }

  __device__ __forceinline__ explicit MovedScale(uint32_t byte)
      : pair_(__hmul2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(byte * 0x0101), __NV_E4M3),
                      __float2half2_rn(kFactor))) {}

  __device__ __forceinline__ bool is_large() const { return false; }
  __device__ __forceinline__ uint32_t multiply(uint32_t pair) const {
    return multiply_pair<__half>(pair, *reinterpret_cast<const uint32_t*>(&pair_));
  }
  __device__ __forceinline__ uint32_t multiply_rest(uint32_t pair) const { return pair; }

 private:
  __half2 pair_;
};

// 2^119 times a scale, the most that bfloat16 holds of every scale: one multiplication, whose products of six bits are
// exact and never subnormal.
template <>
class MovedScale<__nv_bfloat16, ScaleType::kE4M3> {
 public:
  static constexpr float kFactor = 0x1p119f, kLackedFactor = 0x1p126f / kFactor;

  static constexpr bool may_lose_any = false;

  // Whether all four scales of a word are ordinary. Then a scale's bits, moved by four, need but another exponent.
  static __device__ __forceinline__ bool are_ordinary(uint32_t bytes, uint32_t) { return are_plain_e4m3(bytes); }
  static __device__ __forceinline__ uint32_t ordinary(uint32_t pair) {
    constexpr uint32_t exponent = 119 + 127 - 7;
    return pair * 0x10 + exponent * 0x00800080;
  }
  static_assert(kE4M3Max <= 0x1.fep127f / kFactor && 0.5f * kE4M3MinNormal / 8 / kLackedFactor >= 0x1p-126f);

  __device__ __forceinline__ explicit MovedScale(uint32_t byte) {
    const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(byte * 0x0101), __NV_E4M3);
    pair_ = __float2bfloat162_rn(__low2float(pair) * kFactor);
  }

  __device__ __forceinline__ bool is_large() const { return false; }
  __device__ __forceinline__ uint32_t multiply(uint32_t pair) const {
    return multiply_pair(pair, *reinterpret_cast<const uint32_t*>(&pair_));
  }
  __device__ __forceinline__ uint32_t multiply_rest(uint32_t pair) const { return pair; }

 private:
  __nv_bfloat162 pair_;
};

// Of codes of e4m3 (move_e4m3), under scales of e8m0. 2^120 times a power of two may be more than bfloat16 holds: where
// a scale is above 2^7, what is left takes a second multiplication.
class MovedE4M3Scale {
  static constexpr uint32_t kMaxAtOnce = 134;

 public:
  // Whether all scales of a word, of which `mask` has the bytes' bits, are ordinary: from 2^-63 to 1. One
  // multiplication by `ordinary` is all then, and bfloat16 loses nothing.
  static __device__ __forceinline__ bool are_ordinary(uint32_t bytes, uint32_t mask) {
    return ((bytes ^ 0x40404040) & 0xc0c0c0c0 & mask) == 0;
  }
  static __device__ __forceinline__ uint32_t ordinary(uint32_t pair) { return pair * 0x80 + 120 * 0x00800080; }

  __device__ __forceinline__ explicit MovedE4M3Scale(uint32_t byte)
      : first_(ordinary(min(byte, kMaxAtOnce) * 0x00010001)), byte_(byte) {}

  __device__ __forceinline__ uint32_t multiply(uint32_t pair) const { return multiply_pair(pair, first_); }
  // What is left where a scale is large, or NaN.
  __device__ __forceinline__ uint32_t multiply_rest(uint32_t pair) const {
    const uint32_t rest = byte_ == kE8M0NaN ? 0x7fc0 : (max(byte_, kMaxAtOnce) - kMaxAtOnce + 127) << 7;
    return multiply_pair(pair, ptx::prmt(rest, 0, 0x1010));
  }
  // Whether bfloat16 may lose something of codes.
  __device__ __forceinline__ bool may_lose(uint32_t codes) const {
    return byte_ < kFirstBFloat16Scale && (codes & 0x7f7f7f7f) != 0;
  }

 private:
  uint32_t first_, byte_;
};

}  // namespace tileon::sm90
