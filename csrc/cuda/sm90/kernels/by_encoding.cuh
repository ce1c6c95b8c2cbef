// Kernels of mxfp4, whose data decide what is multiplied (layout/encoding.h): the product of each encoding is a kernel
// in itself.
#pragma once

#include <type_traits>

#include "cuda/sm90/kernels/encoding.cuh"
#include "cuda/sm90/kernels/persistent.cuh"
#include "cuda/sm90/layout/scaled_params.h"

namespace tileon::sm90 {

// `Float8` is void where fast_accum is not meant.
template <typename Int8, typename BFloat16, typename Float8>
__global__ void __launch_bounds__(Int8::config.threads(), 1)
    gemm_by_encoding(const __grid_constant__ EncodingParams params) {
  static_assert(Int8::config.threads() == BFloat16::config.threads());
  switch (encoding_of(params.choice)) {
    case Encoding::kInt8:
      return multiply_tiles<Int8>(params.int8);
    case Encoding::kBFloat16:
      return multiply_tiles<BFloat16>(params.bfloat16);
    case Encoding::kFloat8:
      if constexpr (!std::is_void_v<Float8>) {
        static_assert(Float8::config.threads() == BFloat16::config.threads());
        multiply_tiles<Float8>(params.float8);
      }
  }
}

}  // namespace tileon::sm90
