// The processor's estimate of 1 / x.
#pragma once

namespace tileon::ptx {

// Within one unit in the last place (PTX ISA, rcp.approx.ftz.f32). Subnormal numbers are taken for 0.
__device__ __forceinline__ float reciprocal(float x) {
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return estimate;
}

}  // namespace tileon::ptx
