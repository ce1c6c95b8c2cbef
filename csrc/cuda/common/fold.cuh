// What a factor of a fold (core/fold.h) makes of codes: shared by the kernels that fold ahead of a product
// (elementwise/fold_codes.cuh) and the main loop that folds within it (sm90/mainloop/fold_decoder.cuh).
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

namespace tileon {

// A factor beyond float16's range is this times another, of which no product is above the row's largest.
constexpr float kLargestHalfFactor = 32768.0f;

// Two codes times the factor, as e4m3: the first in the low byte.
__device__ __forceinline__ uint32_t to_e4m3(float first, float second) {
  return __nv_cvt_float2_to_fp8x2({first, second}, __NV_SATFINITE, __NV_E4M3);
}

// The eight magnitudes of e2m1 times a factor, as e4m3, a byte each: a table that prmt selects from.
struct FoldedMagnitudes {
  uint32_t low, high;

  __device__ __forceinline__ explicit FoldedMagnitudes(float factor)
      : low(to_e4m3(0.0f * factor, 0.5f * factor) | to_e4m3(factor, 1.5f * factor) << 16),
        high(to_e4m3(2.0f * factor, 3.0f * factor) | to_e4m3(4.0f * factor, 6.0f * factor) << 16) {}
};

}  // namespace tileon
