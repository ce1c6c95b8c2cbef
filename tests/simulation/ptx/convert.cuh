// PTX ISA: "cvt" with .relu.
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

}  // namespace tileon::ptx
