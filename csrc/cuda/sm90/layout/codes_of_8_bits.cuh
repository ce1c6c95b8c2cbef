// Codes of 8 bits, e4m3 or int8, as the 16-bit elements that are multiplied, without a scale. Exact but for NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "core/formats.h"
#include "cuda/common/decode.cuh"
#include "cuda/ptx/convert.cuh"

namespace tileon::sm90 {

// By which two moved codes become what they are.
constexpr uint32_t k2To120 = 0x7b807b80;

// Two codes of e4m3, in the lower bytes, times 2^-120 as move_e4m3 makes them. Two of the operations are
// multiplications, which do not wait for the pipe of shifts and masks.
__device__ __forceinline__ uint32_t move_pair_e4m3(uint32_t codes) {
  const uint32_t pair = ptx::prmt(codes, 0, 0x4140);
  return (pair & 0x00800080) * 0xf0 + pair * 0x10;
}

// Two neighbouring codes of a word, from `first` on: e4m3 as float16, or int8 as float16 or bfloat16. NaN stays NaN.
template <typename Element, DType kCode>
__device__ __forceinline__ uint32_t convert_pair(uint32_t codes, int first = 0) {
  constexpr bool is_half = std::is_same_v<Element, __half>;
  static_assert(is_half || kCode == DType::kInt8);
  if constexpr (kCode == DType::kFloat8E4M3) {
    const __half2_raw halves =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes >> 8 * first), __NV_E4M3);
    return halves.x | static_cast<uint32_t>(halves.y) << 16;
  } else if constexpr (is_half) {
    // x + 128 as the low bits of 1024 to 1279.
    const uint32_t pair = ptx::prmt(codes ^ 0x80808080, 0x64646464, 0x4140 + first * 0x0101);
    const __half2 value = __hsub2(*reinterpret_cast<const __half2*>(&pair), __float2half2_rn(1152.0f));
    return *reinterpret_cast<const uint32_t*>(&value);
  } else {
    // Seven bits as the mantissa of 128 to 255, less 128, or 256 where the sign is set, which makes that of 128.
    const uint32_t pair = ptx::prmt(codes, 0x43434343, 0x4140 + first * 0x0101);
    const uint32_t with_128 = pair & 0xff7fff7f, less = pair & 0xff80ff80;
    const __nv_bfloat162 value =
        __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&with_128), *reinterpret_cast<const __nv_bfloat162*>(&less));
    return *reinterpret_cast<const uint32_t*>(&value);
  }
}

// Four codes, neighbours in a pair. NaN of e4m3 becomes NaN of float16, and a number of bfloat16.
template <typename Element, DType kCode>
__device__ __forceinline__ void convert_codes(uint32_t codes, uint32_t& first, uint32_t& second) {
  if constexpr (kCode == DType::kFloat8E4M3 && !std::is_same_v<Element, __half>) {
    move_e4m3(codes, first, second);
    first = multiply_pair(first, k2To120);
    second = multiply_pair(second, k2To120);
  } else {
    first = convert_pair<Element, kCode>(codes, 0);
    second = convert_pair<Element, kCode>(codes, 2);
  }
}

}  // namespace tileon::sm90
