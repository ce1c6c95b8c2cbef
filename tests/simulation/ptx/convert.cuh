// Conversions, and arithmetic that CUDA C++ has no function for.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

// What is below 0 becomes 0; NaN stays.
inline uint32_t convert_relu_float16(float first, float second) {
  const __half2 pair = __floats2half2_rn(first < 0.0f ? 0.0f : first, second < 0.0f ? 0.0f : second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
inline uint32_t convert_relu_bfloat16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first < 0.0f ? 0.0f : first, second < 0.0f ? 0.0f : second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = low | uint64_t{high} << 32;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> 4 * i & 0xf;
    const auto byte = static_cast<uint8_t>(bytes >> 8 * (nibble & 7));
    const uint32_t sign = (byte & 0x80) != 0 ? 0xff : 0;
    word |= ((nibble & 8) != 0 ? sign : byte) << 8 * i;
  }
  return word;
}

template <int kFactors>
inline uint32_t multiply_e4m3(uint32_t codes, const __half2 (&factors)[kFactors]) {
  const auto pair = [&](uint32_t two) -> uint32_t {
    __half2 product = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
    for (const __half2& factor : factors) product = __hmul2(product, factor);
    return __nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(product), __NV_SATFINITE, __NV_E4M3);
  };
  return pair(codes) | pair(codes >> 16) << 16;
}

inline float exp2(float x) {
  const float power = std::exp2(x);
  return power < 0x1p-126f ? 0.0f : power;
}

inline float reciprocal(float x) {
  const auto flush = [](float y) { return std::fabs(y) < 0x1p-126f ? std::copysign(0.0f, y) : y; };
  return flush(1.0f / flush(x));
}

inline float max_nan(float x, float y) { return x != x || y != y ? x + y : x > y ? x : y; }

}  // namespace tileon::ptx
