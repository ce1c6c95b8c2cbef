// Conversions of two float32 values at once (sm_80), the first into the low half, to nearest even.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// What is below 0 becomes 0 on the way; NaN stays NaN.
__device__ __forceinline__ uint32_t convert_relu_float16(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

__device__ __forceinline__ uint32_t convert_relu_bfloat16(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

}  // namespace tileon::ptx
