// Between a dtype's elements and the accumulators' type, by the intrinsics that say how they round.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "core/formats.h"

namespace tileon {

// An element of a dtype in memory; a pair of e2m1 has no type.
template <DType kDType>
using DeviceType = std::tuple_element_t<static_cast<int>(kDType),  // in the order of DType
                                        std::tuple<__half, __nv_bfloat16, float, double, __nv_fp8_e4m3, __nv_fp8_e5m2>>;

// Calls `use` with an element of a dtype: float16, bfloat16 or float32.
template <typename Use>
void visit_elements(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kFloat16:
      return use(__half());
    case DType::kBFloat16:
      return use(__nv_bfloat16());
    default:
      return use(float());
  }
}

__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float2 widen(__half2 pair) { return __half22float2(pair); }

// bfloat16 is the upper half of float32.
__device__ __forceinline__ float2 widen(__nv_bfloat162 pair) {
  const uint32_t word = *reinterpret_cast<const uint32_t*>(&pair);
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

// A code of small_floats.h, as an element of its own.
struct E4M3 {
  uint8_t code;
};

// To nearest, ties to even; what lies beyond the largest value becomes infinity, in e4m3 the largest value.
template <typename Element, typename Accumulator>
__device__ __forceinline__ Element round_to(Accumulator value) {
  if constexpr (sizeof(Element) >= 4) {
    return value;
  } else if constexpr (std::is_same_v<Element, E4M3>) {
    return {static_cast<uint8_t>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3))};
  } else if constexpr (std::is_same_v<Element, __half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}

// Two rounded numbers in a word, the first in the low half.
template <typename Element>
__device__ __forceinline__ uint32_t round_pair(float first, float second) {
  if constexpr (std::is_same_v<Element, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

}  // namespace tileon
