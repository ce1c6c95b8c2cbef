// A segment of a row as bfloat16: elements times scales, of every format.
#pragma once

#include <cstdint>

#include "cuda/common/decode.cuh"
#include "cuda/sm90/operand_prep/row_segment.cuh"

namespace tileon::sm90 {

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

}  // namespace tileon::sm90
