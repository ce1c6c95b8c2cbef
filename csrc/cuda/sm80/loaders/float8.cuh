// fp8 numbers on their way to kernels that have no instructions for them: as float16, which holds every one of them.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/ptx/convert.cuh"

namespace tileon::sm80 {

// An element of fp8 operands of either kind; which, a kernel is told at run time.
struct AnyFloat8 {
  uint8_t code;
};

// What kernels keep of an operand in shared memory, by what it is in global memory.
template <typename Stored>
struct InTile {
  using Element = Stored;
};
template <>
struct InTile<AnyFloat8> {
  using Element = __half;
};

// Two float16 numbers, the first in the low half. Exact; NaN stays NaN.
__device__ __forceinline__ uint32_t float16_pair(AnyFloat8 first, AnyFloat8 second, bool e4m3) {
  const uint32_t codes = ptx::prmt(first.code, second.code, 0x4101);  // each the high byte of its half
  if (!e4m3) return codes;                                            // e5m2 is float16 without its low byte
  const uint32_t magnitudes = (codes & 0x7f007f00u) >> 1;             // exponent and fraction at float16's places
  __half2 values = *reinterpret_cast<const __half2*>(&magnitudes);
  values = __hmul2(values, __float2half2_rn(256.0f));  // the exponents' biases are 7 and 15
  // 0x7f, which is NaN, is 480 now. It alone overflows here (448 * 146 is 65408), and infinity * 0 is NaN.
  const __half2 overflowed = __hmul2(values, __float2half2_rn(146.0f));
  values = __hfma2(overflowed, __float2half2_rn(0.0f), values);
  return *reinterpret_cast<const uint32_t*>(&values) | (codes & 0x80008000u);
}

// 16 bytes of shared memory out of as many elements as fill them there.
template <typename Stored>
__device__ __forceinline__ uint4 chunk_of(const Stored (&elements)[16 / sizeof(Stored)], bool) {
  alignas(16) Stored chunk[16 / sizeof(Stored)];
#pragma unroll
  for (int i = 0; i < int(16 / sizeof(Stored)); ++i) chunk[i] = elements[i];
  return *reinterpret_cast<const uint4*>(chunk);
}

__device__ __forceinline__ uint4 chunk_of(const AnyFloat8 (&elements)[8], bool e4m3) {
  return {float16_pair(elements[0], elements[1], e4m3), float16_pair(elements[2], elements[3], e4m3),
          float16_pair(elements[4], elements[5], e4m3), float16_pair(elements[6], elements[7], e4m3)};
}

}  // namespace tileon::sm80
