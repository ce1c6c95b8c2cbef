// The codes of e2m1_code (small_floats.h), eight at a time and in fewer instructions: as much as can be in float32's or
// float16's arithmetic, which has twice the rate of the integers'.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/small_floats.h"
#include "cuda/ptx/convert.cuh"

namespace tileon {

// Magnitudes come as eighths, cut off at 1 (which costs nothing, as part of a multiplication): then no code is above 8,
// and an 8, which stands for all that is too large, leaves its neighbours alone until it becomes 7.

// Adding 2^22 to a number rounds it to a multiple of 1/2 and leaves its count of halves at the bottom of the sum.
constexpr float k2To22 = 4194304.0f;

// 2^22 plus half the code. Where e2m1 has steps of 1/2, the code is the count of halves; where they are 1, that of ones
// plus two; where they are 2, that of twos plus four. Of the three the right one is the least.
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

// The same in float16's arithmetic, two at a time, for eighths that float16 holds where it matters: those of numbers of
// 16 bits times a power of two. It has steps of 1/2 from 2^9 on.
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
    const __half2 least = __hmin2(__hmin2(halves, ones), twos);
    word = word * 16 + *reinterpret_cast<const uint32_t*>(&least);
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
