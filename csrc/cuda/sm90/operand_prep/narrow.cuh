// A segment of a row of mxfp4 in one of its narrow encodings (layout/encoding.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/convert.cuh"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/float8_table.cuh"
#include "cuda/sm90/operand_prep/row_segment.cuh"

namespace tileon::sm90 {

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

// Both encodings take a block by its scale's distance from the row's largest. Where that is not within the encoding's
// reach the block is zeros, and any table does.
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
  static_assert(kEncoding == Encoding::kInt8 || kEncoding == Encoding::kFloat8);

  static __device__ __forceinline__ int step(int distance) {
    constexpr int binades = kEncoding == Encoding::kInt8 ? kInt8Binades : kFloat8Binades;
    const int above_least = min(max(distance, -binades), 0) + binades;
    return kEncoding == Encoding::kInt8 ? above_least : above_least + kFloat8LackedExponent;
  }

  std::conditional_t<kEncoding == Encoding::kInt8, Int8Table, Float8Table> table_;
};

// A segment of a row whose largest scale is `largest`.
template <Encoding kEncoding>
__device__ __forceinline__ void segment_to_bytes(const ScaledKernelOperand& operand, int64_t row, int largest,
                                                 int segment, int segments, int k, void* rows) {
  using Lane = LaneRow<4, 32, 16>;
  constexpr int kSpans = 2;
  const Lane lane(operand, row);
  auto* out = static_cast<uint8_t*>(rows) + row * k + Lane::first();
  for_each_spans<kSpans, Lane::kSpan>(segment, segments, k, [&](int first) {
    Lane::Codes loaded[kSpans];
    uint8_t bytes[kSpans];
    const auto exists = [&](int span) { return (first + span) * Lane::kSpan + Lane::first() < k; };
#pragma unroll
    for (int span = 0; span < kSpans; ++span) {
      if (!exists(span)) continue;
      loaded[span] = lane.codes(first + span);
      bytes[span] = lane.scale(first + span);
    }
#pragma unroll
    for (int span = 0; span < kSpans; ++span) {
      if (!exists(span)) continue;
      const NarrowBlock<kEncoding> block(bytes[span], largest);
      const uint2 front = block.decode(loaded[span].words[0]), back = block.decode(loaded[span].words[1]);
      *reinterpret_cast<uint4*>(out + (first + span) * Lane::kSpan) = {front.x, front.y, back.x, back.y};
    }
  });
}

}  // namespace tileon::sm90
