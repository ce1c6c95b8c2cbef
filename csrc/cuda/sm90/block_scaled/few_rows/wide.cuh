// The product once more, where bfloat16 lost something of e4m3 (block_scaled/decode.cuh): one sum after the other, in
// float32. Such numbers are as good as zero, or an error, so this is short instead of fast.
#pragma once

#include <cstdint>

#include "../../../../problem.h"
#include "../../../../small_floats.h"

namespace tileon::sm90 {

// Element k of a row times its scale.
template <ElementType kElement, ScaleType kScale>
__device__ __forceinline__ float scaled_element(const BlockScaledOperand& operand, int64_t row, int64_t k) {
  const int64_t byte = row * operand.stride_row + k / elements_per_byte(kElement) * operand.stride_k;
  const uint32_t codes = static_cast<const uint8_t*>(operand.data)[byte];
  const uint32_t scale =
      static_cast<const uint8_t*>(operand.scale)[operand.scale_strides.offset(row, k / vec_of(kScale))];
  const float element = kElement == ElementType::kE2M1 ? e2m1_value(codes >> k % 2 * 4 & 0xf) : e4m3_value(codes);
  return element * (kScale == ScaleType::kE8M0 ? e8m0_value(scale) : e4m3_value(scale));
}

template <typename Kernel>
__device__ float wide_sum(const BlockScaledProblem& problem, int64_t row_a, int64_t row_b) {
  float sum = 0;
#pragma unroll 1
  for (int64_t k = 0; k < problem.k; ++k)
    sum = fmaf(scaled_element<Kernel::a, Kernel::scale>(problem.a, row_a, k),
               scaled_element<Kernel::b, Kernel::scale>(problem.b, row_b, k), sum);
  return sum;
}

}  // namespace tileon::sm90
