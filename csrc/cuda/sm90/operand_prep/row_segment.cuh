// A segment of a row of codes and scales, which a warp takes at a time, and what it becomes: bfloat16, of every format,
// or of mxfp4 one of the narrow encodings (layout/encoding.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/decode.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/small_m/elements.cuh"

namespace tileon::sm90 {

// Some codes of a lane.
template <int kWords>
struct alignas(kWords * 4) CodeWords {
  uint32_t words[kWords];
};

// A lane's share of a row of codes and scales: kElements of every 32 * kElements, under one scale. Addresses are worked
// out once for all spans.
template <int kBits, int kVec, int kElements>
class LaneRow {
 public:
  static constexpr int kSpan = 32 * kElements;
  static_assert(kVec % kElements == 0 && kSpan % (kVec * kScaleBlockCols) == 0);
  using Codes = CodeWords<kElements * kBits / 32>;

  __device__ __forceinline__ LaneRow(const ScaledKernelOperand& operand, int64_t row)
      : codes_(static_cast<const uint8_t*>(operand.data) + row * operand.stride_row + first() * kBits / 8),
        scales_(static_cast<const uint8_t*>(operand.scale) + operand.scale_strides.offset(row, first() / kVec)),
        scale_step_(operand.scale_strides.of_col(kSpan / kVec)) {}

  static __device__ __forceinline__ int first() { return static_cast<int>(threadIdx.x) % 32 * kElements; }

  // Of span `span` of the row.
  __device__ __forceinline__ Codes codes(int span) const {
    return *reinterpret_cast<const Codes*>(codes_ + static_cast<int64_t>(span) * (kSpan * kBits / 8));
  }
  __device__ __forceinline__ uint8_t scale(int span) const { return scales_[span * scale_step_]; }

 private:
  const uint8_t* codes_;
  const uint8_t* scales_;
  int64_t scale_step_;
};

// Calls `take` with the first of each kSpans spans of a row of `k` elements that are segment `segment`'s, of
// `segments`.
template <int kSpans, int kSpan, typename Take>
__device__ __forceinline__ void for_each_spans(int segment, int segments, int k, const Take& take) {
  for (int first = segment * kSpans; first * kSpan < k; first += segments * kSpans) take(first);
}

// ---- bfloat16: elements times scales ----

// Eight codes times their scale. Returns whether bfloat16 loses something of them.
template <DType kElement, ScaleType kScale, int kWords>
__device__ __forceinline__ bool to_bfloat16(const uint32_t (&codes)[kWords], uint32_t scale_byte, uint4& elements) {
  if constexpr (kElement == DType::kFloat4E2M1) {
    uint4 eight[1];
    decode_e2m1<kScale>(codes, scale_byte, eight);
    elements = eight[0];
    return false;
  } else {
    if (!is_beyond_bfloat16(codes, scale_byte)) {
      uint4 eight[1];
      decode_e4m3<kScale>(codes, scale_byte, eight);
      elements = eight[0];
      return false;
    }
    const float scale = e8m0_value(scale_byte);
    uint32_t pairs[4];
    bool lost = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = codes[i / 2] >> (i % 2 * 16);
      const float low = e4m3_value(pair & 0xff) * scale, high = e4m3_value(pair >> 8 & 0xff) * scale;
      const __nv_bfloat162 rounded = __floats2bfloat162_rn(low, high);
      const float2 back = __bfloat1622float2(rounded);
      lost |= (back.x != low && low == low) || (back.y != high && high == high);
      pairs[i] = *reinterpret_cast<const uint32_t*>(&rounded);
    }
    elements = {pairs[0], pairs[1], pairs[2], pairs[3]};
    return lost;
  }
}

// A segment of a row. Returns whether bfloat16 loses something of it.
template <DType kElement, ScaleType kScale>
__device__ __forceinline__ bool segment_to_bfloat16(const ScaledKernelOperand& operand, int64_t row, int segment,
                                                    int segments, int k, void* rows) {
  using Lane = LaneRow<8 / elements_per_byte(kElement), vec_of(kScale), 8>;
  constexpr int kSpans = 4;
  const Lane lane(operand, row);
  auto* out = static_cast<__nv_bfloat16*>(rows) + row * k + Lane::first();
  bool lost = false;
  for_each_spans<kSpans, Lane::kSpan>(segment, segments, k, [&](int first) {
    typename Lane::Codes loaded[kSpans];
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
      uint4 elements;
      lost |= to_bfloat16<kElement, kScale>(loaded[span].words, bytes[span], elements);
      *reinterpret_cast<uint4*>(out + (first + span) * Lane::kSpan) = elements;
    }
  });
  return lost;
}

// ---- the narrow encodings ----

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
