// The codes of e2m1_code (small_floats.h), eight at a time and in fewer instructions: as much as can be in float32's or
// float16's arithmetic, which has twice the rate of the integers'.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "../../small_floats.h"
#include "../ptx/prmt.cuh"

namespace tileon {

// Adding 2^22 to a number rounds it to a multiple of 1/2 and leaves its count of halves at the bottom of the sum.
constexpr float k2To22 = 4194304.0f;

// 2^22 plus half the code of a magnitude below 7. Where e2m1 has steps of 1/2, the code is the count of halves; where
// they are 1, that of ones plus two; where they are 2, that of twos plus four. Of the three the right one is the least.
__device__ __forceinline__ float e2m1_sum(float magnitude) {
  const float halves = magnitude + k2To22;
  const float ones = fmaf(magnitude, 0.5f, k2To22 + 1.0f);
  const float twos = fmaf(magnitude, 0.25f, k2To22 + 2.0f);
  return fminf(fminf(halves, ones), twos);
}

// The codes of eight magnitudes, the first in the lowest bits. `may_saturate`: they may be 7 or more.
__device__ __forceinline__ uint32_t e2m1_codes(float (&magnitudes)[8], bool may_saturate) {
  if (may_saturate) {
#pragma unroll
    for (float& magnitude : magnitudes) magnitude = fminf(magnitude, kE2M1Max);
  }
  // the sum's own upper bits, which are the same for all, have moved as far as they are still in the word
  constexpr uint32_t sum = 0x4a800000u, moved = sum + (sum << 4) + (sum << 8);
  uint32_t word = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) word = word * 16 + bits_of(e2m1_sum(magnitudes[i]));
  return word - moved;
}

// The same in float16's arithmetic, two at a time, for magnitudes that float16 holds where it matters: those of numbers
// of 16 bits times a power of two. It has steps of 1/2 from 2^9 on.
__device__ __forceinline__ uint32_t e2m1_codes_of_float16(const float (&magnitudes)[8]) {
  const auto both = [](float value) { return __float2half2_rn(value); };
  constexpr uint32_t sum = 0x60006000u, moved = sum + (sum << 4) + (sum << 8) + (sum << 12);
  uint32_t word = 0;
#pragma unroll
  for (int i = 3; i >= 0; --i) {
    const __half2 pair = __floats2half2_rn(magnitudes[i], magnitudes[i + 4]);
    const __half2 halves = __hadd2(pair, both(512.0f));
    const __half2 ones = __hfma2(pair, both(0.5f), both(513.0f));
    const __half2 twos = __hfma2(pair, both(0.25f), both(514.0f));
    const __half2 least = __hmin2(__hmin2(halves, ones), __hmin2(twos, both(515.5f)));
    word = word * 16 + *reinterpret_cast<const uint32_t*>(&least);
  }
  return word - moved;
}

// Bit 4 i + 3 is the sign of number i of eight; the other bits are anything.
__device__ __forceinline__ uint32_t sign_bits(const float* numbers) {
  uint32_t signs = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) signs = signs >> 4 | (bits_of(numbers[i]) & 0x80000000u);
  return signs;
}

// Of numbers of 16 bits, two in a word.
template <typename Element>
__device__ __forceinline__ uint32_t sign_bits(const Element* numbers) {
  const auto* words = reinterpret_cast<const uint32_t*>(numbers);
  // a byte of signs for each even number, then for each odd one
  const uint32_t even = ptx::prmt(ptx::prmt(words[0], words[1], 0xd9d9), ptx::prmt(words[2], words[3], 0xd9d9), 0x5410);
  const uint32_t odd = ptx::prmt(ptx::prmt(words[0], words[1], 0xfbfb), ptx::prmt(words[2], words[3], 0xfbfb), 0x5410);
  return (even & 0x0f0f0f0fu) | (odd & 0xf0f0f0f0u);
}

}  // namespace tileon
