// mxfp4 by way of e5m2: half the decoding, and exact too. A block of b keeps its codes, times 2^-14; its product with a
// block of a, within which all numbers have one step, fits what the tensor core sums exactly; and b's scale multiplies
// that sum in float32. a's scale goes into its elements: e5m2 holds 27 powers of two times every code. Where a scale of
// a lies outside of those, bfloat16 takes the whole product (elements.cuh).
#pragma once

#include <cstdint>

#include "../../../../small_floats.h"
#include "../../../ptx/prmt.cuh"

namespace tileon::sm90 {

// Scales of a from 2^-17 to 2^9: elements of activations, mostly.
constexpr uint32_t kFloat8LeastScale = 127 - 17;
constexpr uint32_t kFloat8MostScale = kFloat8LeastScale + 26;
constexpr uint32_t kFloat8MiddleScale = kFloat8LeastScale + 13;  // 2^-4, of which elements lack nothing

// What sums lack: b's 2^14, and of a the middle scale.
constexpr float kFloat8Factor = 0x1p14f * 0x1p-4f;
static_assert(kFloat8MiddleScale == 127 - 4);

// Codes' magnitudes times a power of two, looked up; that of scales outside of e5m2's is another one.
class Float8Table {
 public:
  __device__ __forceinline__ explicit Float8Table(uint32_t scale) {
    const uint32_t within = min(max(scale, kFloat8LeastScale), kFloat8MostScale);
    const uint32_t exponent = (within - kFloat8MiddleScale) * 4;  // 2^-13 to 2^13, modulo 2^32
    low_ = 0x3e3c3800 + exponent * 0x010101 * 0x100;              // 0, 0.5, 1, 1.5
    high_ = 0x46444240 + exponent * 0x01010101;                   // 2, 3, 4, 6
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

// Whether it loses something of a block under this scale.
__device__ __forceinline__ bool is_beyond_float8(const uint32_t (&codes)[4], uint32_t scale) {
  if (scale >= kFloat8LeastScale && scale <= kFloat8MostScale) return false;
  return scale == kE8M0NaN || ((codes[0] | codes[1] | codes[2] | codes[3]) & 0x77777777) != 0;
}

// The even codes of eight times 2^-14, and the odd ones: exponent and mantissa moved to where e5m2 has its own,
// subnormals included.
__device__ __forceinline__ void move_e2m1_to_e5m2(uint32_t codes, uint32_t& even, uint32_t& odd) {
  even = (codes * 0x10 & 0x80808080) | (codes * 2 & 0x0e0e0e0e);
  odd = (codes & 0x80808080) | (codes >> 3 & 0x0e0e0e0e);
}

}  // namespace tileon::sm90
