// Conversions, and arithmetic that CUDA C++ has no function for.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

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

// Four codes of e4m3 times `factors`, two float16 that are the same and multiply one after the other, rounded to e4m3:
// once, for float16 holds every code, and what is lost between is below half of e4m3's smallest number where factors
// are powers of two. The largest magnitude is 448; NaN stays NaN. Written out, since of the library's functions ptxas
// makes ten instructions and not six.
template <int kFactors>
__device__ __forceinline__ uint32_t multiply_e4m3(uint32_t codes, const __half2 (&factors)[kFactors]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
  uint32_t first, second;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\ncvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(first), "=r"(second)
      : "r"(codes));
#pragma unroll
  for (const __half2& factor : factors) {
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(&factor);
    asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(first) : "r"(bits));
    asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(second) : "r"(bits));
  }
  uint32_t product;
  asm("{.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f16x2 low, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 high, %2;\nmov.b32 %0, {low, high};}"
      : "=r"(product)
      : "r"(first), "r"(second));
  return product;
#else
  const auto pair = [&](uint32_t two) -> uint32_t {
    __half2 product = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
    for (const __half2& factor : factors) product = __hmul2(product, factor);
    return __nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(product), __NV_SATFINITE, __NV_E4M3);
  };
  return pair(codes) | pair(codes >> 16) << 16;
#endif
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
