// Codes times their scale, as bfloat16, in words of two: the lower k in the low half.
//
// bfloat16 has float32's exponents, so it holds what float32 does but for the smallest: a product of e2m1 always, one
// of e4m3 unless the scale is below 2^-124 (what happens then: sm80/kernels/block_scaled.cuh, and for few rows on
// Hopper sm90/small_m/lost_blocks.cuh).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/formats.h"
#include "core/small_floats.h"
#include "cuda/ptx/convert.cuh"

namespace tileon {

// A scale as both halves of a word. Exact.
template <ScaleType kScale>
__device__ __forceinline__ uint32_t scale_pair(uint32_t byte) {
  uint32_t bits;
  if constexpr (kScale == ScaleType::kE8M0) {
    bits = byte == 0 ? 0x0040 : byte == kE8M0NaN ? 0x7fc0 : byte << 7;
  } else {
    bits = bits_of(e4m3_value(byte)) >> 16;
  }
  return ptx::prmt(bits, 0, 0x1010);
}

template <typename Element = __nv_bfloat16>
__device__ __forceinline__ uint32_t multiply_pair(uint32_t x, uint32_t y) {
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
  const Pair product = __hmul2(*reinterpret_cast<const Pair*>(&x), *reinterpret_cast<const Pair*>(&y));
  return *reinterpret_cast<const uint32_t*>(&product);
}

// The eight magnitudes of e2m1 times one scale, looked up by their codes: one table of low bytes, one of high ones.
class E2M1Table {
 public:
  __device__ __forceinline__ explicit E2M1Table(uint32_t scale) {
    const uint32_t of_0 = multiply_pair(0x3f000000, scale);  // 0, 0.5
    const uint32_t of_2 = multiply_pair(0x3fc03f80, scale);  // 1, 1.5
    const uint32_t of_4 = multiply_pair(0x40404000, scale);  // 2, 3
    const uint32_t of_6 = multiply_pair(0x40c04080, scale);  // 4, 6
    low_[0] = ptx::prmt(of_0, of_2, 0x6420);
    low_[1] = ptx::prmt(of_4, of_6, 0x6420);
    high_[0] = ptx::prmt(of_0, of_2, 0x7531);
    high_[1] = ptx::prmt(of_4, of_6, 0x7531);
  }

  // Eight codes, the first in the lowest bits.
  __device__ __forceinline__ uint4 decode(uint32_t codes) const {
    const uint32_t magnitudes = codes & 0x77777777;
    const uint32_t raised = codes << 4;  // the signs of even codes, too, on top of a byte
    uint4 words;
    decode_four(magnitudes, ptx::prmt(raised, codes, 0xd9c8), words.x, words.y);
    decode_four(magnitudes >> 16, ptx::prmt(raised, codes, 0xfbea), words.z, words.w);
    return words;
  }

 private:
  __device__ __forceinline__ void decode_four(uint32_t magnitudes, uint32_t signs, uint32_t& first,
                                              uint32_t& second) const {
    const uint32_t low = ptx::prmt(low_[0], low_[1], magnitudes);
    const uint32_t high = ptx::prmt(high_[0], high_[1], magnitudes) ^ (signs & 0x80808080);
    first = ptx::prmt(low, high, 0x5140);
    second = ptx::prmt(low, high, 0x7362);
  }

  uint32_t low_[2], high_[2];
};

// Four codes of e4m3, times 2^-120: bfloat16 has four exponent bits more and four mantissa bits more, so that a code
// moved four bits to the right, its sign on top, is the same number under another bias, subnormals included. NaN is
// not.
__device__ __forceinline__ void move_e4m3(uint32_t codes, uint32_t& first, uint32_t& second) {
  const auto moved = [](uint32_t pair) { return (pair & 0x80008000) | (pair >> 4 & 0x07f007f0); };
  first = moved(ptx::prmt(codes, 0, 0x1404));
  second = moved(ptx::prmt(codes, 0, 0x3424));
}

// Scales of which bfloat16 holds the product with every code of e4m3 begin here, at 2^-124.
constexpr uint32_t kFirstBFloat16Scale = 127 - 124;

// Whether bfloat16, or the way that numbers take to it here, would lose something of codes of e4m3 and their scale:
// NaNs, and products below its smallest steps.
template <int kWords>
__device__ __forceinline__ bool is_beyond_bfloat16(const uint32_t (&codes)[kWords], uint32_t scale_byte) {
  uint32_t any = 0, carried = 0;  // a magnitude of 0x7f, NaN, alone reaches bit 7
#pragma unroll
  for (const uint32_t word : codes) {
    const uint32_t magnitudes = word & 0x7f7f7f7f;
    any |= magnitudes;
    carried |= magnitudes + 0x01010101;
  }
  const bool has_nan = (carried & 0x80808080) != 0;
  return has_nan | (scale_byte == kE8M0NaN) | ((scale_byte < kFirstBFloat16Scale) & (any != 0));
}

// The elements of a chunk of codes, times their scale, eight in 16 bytes.
template <ScaleType kScale, int kWords>
__device__ __forceinline__ void decode_e2m1(const uint32_t (&codes)[kWords], uint32_t scale_byte,
                                            uint4 (&elements)[kWords]) {
  const E2M1Table table(scale_pair<kScale>(scale_byte));
#pragma unroll
  for (int i = 0; i < kWords; ++i) elements[i] = table.decode(codes[i]);
}

template <ScaleType kScale, int kWords>
__device__ __forceinline__ void decode_e4m3(const uint32_t (&codes)[kWords], uint32_t scale_byte,
                                            uint4 (&elements)[kWords / 2]) {
  static_assert(kScale == ScaleType::kE8M0 && kWords % 2 == 0);
  constexpr uint32_t k2To120 = 0x7b807b80;
  const uint32_t scale = scale_byte * 0x00800080;  // 0 for 2^-127 and infinity for NaN, which are beyond bfloat16 here
#pragma unroll
  for (int i = 0; i < kWords / 2; ++i) {
    uint32_t words[4];
    move_e4m3(codes[2 * i], words[0], words[1]);
    move_e4m3(codes[2 * i + 1], words[2], words[3]);
#pragma unroll
    for (uint32_t& word : words) word = multiply_pair(multiply_pair(word, k2To120), scale);
    elements[i] = {words[0], words[1], words[2], words[3]};
  }
}

}  // namespace tileon
