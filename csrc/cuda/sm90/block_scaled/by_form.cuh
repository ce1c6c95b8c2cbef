// Kernels of mxfp4, whose data decide which of them multiplies (forms.h): those that do not leave at once.
#pragma once

#include "../gemm/kernel.cuh"
#include "forms.cuh"
#include "params.h"

namespace tileon::sm90 {

// Two kernels in one: int8 where that was chosen, and bfloat16.
template <typename Int8, typename BFloat16>
__global__ void __launch_bounds__(Int8::config.threads(), 1)
    gemm_int8_or_bfloat16(const __grid_constant__ FormParams params) {
  static_assert(Int8::config.threads() == BFloat16::config.threads());
  switch (form_of(params.choice)) {
    case Form::kInt8:
      return multiply_tiles<Int8>(params.narrow);
    case Form::kBFloat16:
      return multiply_tiles<BFloat16>(params.bfloat16);
    case Form::kFloat8:
      return;
  }
}

template <typename Float8>
__global__ void __launch_bounds__(Float8::config.threads(), 1) gemm_float8(const __grid_constant__ FormParams params) {
  if (form_of(params.choice) == Form::kFloat8) multiply_tiles<Float8>(params.narrow);
}

}  // namespace tileon::sm90
