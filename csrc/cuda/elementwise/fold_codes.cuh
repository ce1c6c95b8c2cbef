// A block of codes with an e8m0 scale, as the kernels of fold_operand.cu hold it: its largest code, and what a
// factor makes of it.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "core/fold.h"
#include "cuda/common/fold.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/convert.cuh"

namespace tileon {

constexpr int kFoldBlock = 32;  // k with one scale
constexpr int kFoldWarps = 8;   // of a CTA

template <int kBits>
struct BlockCodes;

template <>
struct BlockCodes<8> {
  static constexpr int kVectors = 2;
  static constexpr float kTopBinade = 256.0f;  // where the largest code's begins
  uint4 vectors[kVectors];

  // The largest magnitude that is a number: of two numbers __hmax2 takes the one that is not NaN.
  __device__ __forceinline__ float largest() const {
    __half2 most = __float2half2_rn(0.0f);
    const auto look_at = [&](uint32_t codes) {
      most = __hmax2(most, __hmax2(__habs2(numbers(codes)), __habs2(numbers(codes >> 16))));
    };
#pragma unroll
    for (const uint4& vector : vectors) {
      look_at(vector.x);
      look_at(vector.y);
      look_at(vector.z);
      look_at(vector.w);
    }
    return fmaxf(__low2float(most), __high2float(most));
  }

  __device__ __forceinline__ void folded(float factor, uint4 (&out)[2]) const {
    if (factor <= kLargestHalfFactor) {
      const __half2 factors[] = {__float2half2_rn(factor)};
      multiply_by(factors, out);
    } else {
      const __half2 factors[] = {__float2half2_rn(kLargestHalfFactor), __float2half2_rn(factor / kLargestHalfFactor)};
      multiply_by(factors, out);
    }
  }

 private:
  template <int kFactors>
  __device__ __forceinline__ void multiply_by(const __half2 (&factors)[kFactors], uint4 (&out)[2]) const {
    const auto word_of = [&](uint32_t codes) { return ptx::multiply_e4m3(codes, factors); };
#pragma unroll
    for (int i = 0; i < 2; ++i)
      out[i] = {word_of(vectors[i].x), word_of(vectors[i].y), word_of(vectors[i].z), word_of(vectors[i].w)};
  }

  // Of two codes in the word's low half.
  static __device__ __forceinline__ __half2 numbers(uint32_t codes) {
    return __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
  }
};

template <>
struct BlockCodes<4> {
  static constexpr int kVectors = 1;
  static constexpr float kTopBinade = 4.0f;
  uint4 vectors[kVectors];

  __device__ __forceinline__ float largest() const {
    const uint32_t words[] = {vectors[0].x, vectors[0].y, vectors[0].z, vectors[0].w};
    uint32_t most = 0;
    uint32_t left[] = {0x11111111, 0x11111111, 0x11111111, 0x11111111};  // codes that may be the largest: a bit each
#pragma unroll
    for (int bit = 2; bit >= 0; --bit) {
      uint32_t hits[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) hits[i] = words[i] >> bit & left[i];
      if ((hits[0] | hits[1] | hits[2] | hits[3]) == 0) continue;
      most |= 1u << bit;
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = hits[i];
    }
    return e2m1_value(most);
  }

  __device__ __forceinline__ void folded(float factor, uint4 (&out)[2]) const {
    const FoldedMagnitudes table(factor);
    const auto four = [&](uint32_t codes) {  // the lower 16 bits
      const uint32_t bytes = (codes & 0xff) | (codes & 0xff00) << 8;
      const uint32_t signs = ((bytes << 4 & 0x00800080) | (bytes << 8 & 0x80008000));
      return ptx::prmt(table.low, table.high, codes & 0x7777) | signs;
    };
    const uint4& codes = vectors[0];
    out[0] = {four(codes.x), four(codes.x >> 16), four(codes.y), four(codes.y >> 16)};
    out[1] = {four(codes.z), four(codes.z >> 16), four(codes.w), four(codes.w >> 16)};
  }
};

// ---- a block where it lies ----

template <int kBits>
__device__ __forceinline__ BlockCodes<kBits> load_codes(const ScaledKernelOperand& operand, int64_t row, int block) {
  BlockCodes<kBits> codes;
  const auto* bytes = static_cast<const uint8_t*>(operand.data) + row * operand.stride_row;
  const auto* vectors = reinterpret_cast<const uint4*>(bytes) + block * BlockCodes<kBits>::kVectors;
#pragma unroll
  for (int i = 0; i < BlockCodes<kBits>::kVectors; ++i) codes.vectors[i] = vectors[i];
  return codes;
}

}  // namespace tileon
