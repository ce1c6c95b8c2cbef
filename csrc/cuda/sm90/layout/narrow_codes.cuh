// Codes of mxfp4 in a narrow encoding (layout/encoding.h), by tables of what the magnitudes of e2m1 become.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// Codes as e5m2 times a power of two: their magnitudes, looked up. e5m2 holds 2^-13 to 2^13 times every code.
class Float8Table {
 public:
  __device__ __forceinline__ explicit Float8Table(int exponent) {
    const uint32_t added = static_cast<uint32_t>(exponent) * 4;  // modulo 2^32
    low_ = 0x3e3c3800 + added * 0x010101 * 0x100;                // 0, 0.5, 1, 1.5
    high_ = 0x46444240 + added * 0x01010101;                     // 2, 3, 4, 6
  }

  // The even codes of eight, and the odd ones.
  __device__ __forceinline__ void decode(uint32_t codes, uint32_t& even, uint32_t& odd) const {
    const uint32_t magnitudes = codes & 0x77777777;
    const uint32_t first = ptx::prmt(low_, high_, magnitudes), second = ptx::prmt(low_, high_, magnitudes >> 16);
    even = ptx::prmt(first, second, 0x6420) | (codes << 4 & 0x80808080);
    odd = ptx::prmt(first, second, 0x7531) | (codes & 0x80808080);
  }

 private:
  uint32_t low_, high_;
};

// The magnitudes of e2m1 in halves, times 2^shift for a shift of 0 to 3, looked up by their codes; and their negatives.
class Int8Table {
 public:
  __device__ __forceinline__ explicit Int8Table(int shift) {
    const uint32_t clean = (0xffu << shift & 0xff) * 0x01010101u;  // of what a byte's neighbour left in it
    positive_[0] = 0x03020100u << shift;
    positive_[1] = 0x0c080604u << shift;
    negative_[0] = 0xfdfeff00u << shift & clean;
    negative_[1] = 0xf4f8fafcu << shift & clean;
  }

  // Eight codes, the first in the lowest bits.
  __device__ __forceinline__ uint2 decode(uint32_t codes) const {
    const uint32_t magnitudes = codes & 0x77777777;
    const uint32_t raised = codes << 4;  // the signs of even codes, too, on top of a byte
    return {decode_four(magnitudes, ptx::prmt(raised, codes, 0xd9c8)),
            decode_four(magnitudes >> 16, ptx::prmt(raised, codes, 0xfbea))};
  }

 private:
  __device__ __forceinline__ uint32_t decode_four(uint32_t magnitudes, uint32_t is_negative) const {
    const uint32_t positive = ptx::prmt(positive_[0], positive_[1], magnitudes);
    const uint32_t negative = ptx::prmt(negative_[0], negative_[1], magnitudes);
    return (positive & ~is_negative) | (negative & is_negative);
  }

  uint32_t positive_[2], negative_[2];
};

// Both encodings take a block by the distance of its scale from the row's largest one. Beyond the encoding's reach a
// block is zeros, which any table gives.
template <Encoding kEncoding>
class NarrowBlock {
 public:
  __device__ __forceinline__ NarrowBlock(int scale, int largest) : table_(step(scale - largest)) {}

  __device__ __forceinline__ uint2 decode(uint32_t codes) const {
    if constexpr (kEncoding == Encoding::kInt8) {
      return table_.decode(codes);
    } else {
      uint2 eight;  // the even ones, then the odd ones: the order of k is the same in both operands
      table_.decode(codes, eight.x, eight.y);
      return eight;
    }
  }

 private:
  static_assert(kEncoding == Encoding::kInt8 || kEncoding == Encoding::kE5M2);

  static __device__ __forceinline__ int step(int distance) {
    constexpr int binades = kEncoding == Encoding::kInt8 ? kInt8Binades : kFloat8Binades;
    const int above_least = min(max(distance, -binades), 0) + binades;
    return kEncoding == Encoding::kInt8 ? above_least : above_least + kFloat8LackedExponent;
  }

  std::conditional_t<kEncoding == Encoding::kInt8, Int8Table, Float8Table> table_;
};

}  // namespace tileon::sm90
