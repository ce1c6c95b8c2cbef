// Conversions, and arithmetic that CUDA C++ has no function for.
#pragma once

#include <cstdint>

namespace tileon::ptx {

// Two float32 values (sm_80), the first into the low half, to nearest even. What is below 0 becomes 0 on the way; NaN
// stays NaN.
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

// Byte i of the result is the byte of (low, high) that nibble i of `selector` names: 0 to 3 in `low`, 4 to 7 in `high`.
// Plus 8, and the result's byte is eight copies of that byte's sign.
__device__ __forceinline__ uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t word;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(selector));
  return word;
}

// 2^x within two units in the last place (PTX ISA, ex2.approx.ftz.f32). Results below 2^-126 are 0.
__device__ __forceinline__ float exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x within one unit in the last place (PTX ISA, rcp.approx.ftz.f32). Subnormal numbers are taken for 0.
__device__ __forceinline__ float reciprocal(float x) {
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return estimate;
}

// The larger of two numbers, NaN where one of them is NaN.
__device__ __forceinline__ float max_nan(float x, float y) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
}

}  // namespace tileon::ptx
