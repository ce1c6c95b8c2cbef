// mxfp4 by way of e5m2: half the decoding, and exact too. A block of b keeps its codes, times 2^-14; its product with a
// block of a, within which all numbers have one step, fits what the tensor core sums exactly; and b's scale multiplies
// that sum in float32. a's scale goes into its elements: e5m2 holds 27 powers of two times every code. Where a scale of
// a lies outside of those, or one of b is so extreme that it is no factor of its block's sum, bfloat16 takes the whole
// product (elements.cuh).
#pragma once

#include <cstdint>

#include "core/small_floats.h"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/float8_table.cuh"

namespace tileon::sm90 {

// Scales of a from 2^-17 to 2^9: elements of activations, mostly.
constexpr uint32_t kFloat8LeastScale = 127 - 17;
constexpr uint32_t kFloat8MostScale = kFloat8LeastScale + kFloat8Binades;
constexpr uint32_t kFloat8MiddleScale = kFloat8LeastScale + kFloat8Binades / 2;  // 2^-4, of which elements lack nothing

// What sums lack: b's 2^14, and of a the middle scale.
constexpr float kFloat8Factor = 0x1p14f * 0x1p-4f;
static_assert(kFloat8MiddleScale == 127 - 4);

// Of a scale's table (float8_table.cuh); that of scales outside of e5m2's is another one.
__device__ __forceinline__ int float8_exponent(uint32_t scale) {
  return static_cast<int>(min(max(scale, kFloat8LeastScale), kFloat8MostScale) - kFloat8MiddleScale);
}

// Whether it loses something of a block under this scale.
__device__ __forceinline__ bool is_beyond_float8(const uint32_t (&codes)[4], uint32_t scale) {
  if (scale >= kFloat8LeastScale && scale <= kFloat8MostScale) return false;
  return scale == kE8M0NaN || ((codes[0] | codes[1] | codes[2] | codes[3]) & 0x77777777) != 0;
}

// b's scales that are factors of their block's sum, whatever its codes are. From 2^-120 on every product is a multiple
// of 2^-139, and of 2^-149 while sums lack kFloat8Factor; up to 2^125 no element times its scale is above what float32
// holds.
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
