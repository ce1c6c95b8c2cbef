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

// Four codes, neighbours in a pair. NaN of e4m3 becomes NaN of float16, and a number of bfloat16.
template <typename Element, DType kCode>
__device__ __forceinline__ void convert_codes(uint32_t codes, uint32_t& first, uint32_t& second) {
  constexpr bool is_half = std::is_same_v<Element, __half>;
  if constexpr (kCode == DType::kFloat8E4M3) {
    if constexpr (is_half) {
      const auto converted = [](uint32_t pair) {
        const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3);
        return halves.x | static_cast<uint32_t>(halves.y) << 16;
      };
      first = converted(codes & 0xffff);
      second = converted(codes >> 16);
    } else {
      constexpr uint32_t k2To120 = 0x7b807b80;
      move_e4m3(codes, first, second);
      first = multiply_pair(first, k2To120);
      second = multiply_pair(second, k2To120);
    }
  } else if constexpr (is_half) {
    // x + 128 as the low bits of 1024 to 1279.
    const uint32_t shifted = codes ^ 0x80808080;
    const auto converted = [](uint32_t pair) {
      const __half2 value = __hsub2(*reinterpret_cast<const __half2*>(&pair), __float2half2_rn(1152.0f));
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    first = converted(ptx::prmt(shifted, 0x64646464, 0x4140));
    second = converted(ptx::prmt(shifted, 0x64646464, 0x4342));
  } else {
    // Seven bits as the mantissa of 128 to 255, less 128, or 256 where the sign is set, which makes that of 128.
    const auto converted = [](uint32_t pair) {
      const uint32_t with_128 = pair & 0xff7fff7f, less = pair & 0xff80ff80;
      const __nv_bfloat162 value =
          __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&with_128), *reinterpret_cast<const __nv_bfloat162*>(&less));
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    first = converted(ptx::prmt(codes, 0x43434343, 0x4140));
    second = converted(ptx::prmt(codes, 0x43434343, 0x4342));
  }
}

}  // namespace tileon::sm90
