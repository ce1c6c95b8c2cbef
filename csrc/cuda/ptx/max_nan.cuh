// The larger of two numbers, NaN where one of them is NaN.
#pragma once

namespace tileon::ptx {

__device__ __forceinline__ float max_nan(float x, float y) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
}

}  // namespace tileon::ptx
