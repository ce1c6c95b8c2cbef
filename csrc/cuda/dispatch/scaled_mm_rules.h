// Which block-scaled products torch's own scaled_mm computes on GPUs whose tensor cores take block scales (10.x): a
// pure function of the problem.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon {

constexpr bool has_block_scaled_tensor_cores(int capability) { return capability >= 100 && capability < 110; }

// cuBLASLt reads contiguous rows, at multiples of 16 bytes, and scales that are packed and contiguous.
inline bool is_contiguous_packed(const Operand& operand, int64_t k, int64_t cols) {
  const int64_t row_bytes = k / elements_per_byte(operand.dtype);
  const auto address = reinterpret_cast<uintptr_t>(operand.data) | reinterpret_cast<uintptr_t>(operand.scale.data);
  return operand.stride_k == 1 && operand.stride_mn == row_bytes && address % 16 == 0 &&
         operand.scale.strides == packed_scales(cols);
}

// mxfp8, as cuBLASLt offers it: sizes that are multiples of its tiles, nothing behind the sum. Not nvfp4: those tensor
// cores ignore the sign of an e4m3 scale, which counts here, and only the GPU could see whether a scale has one.
inline bool scaled_mm_takes(const Problem& problem) {
  const bool mxfp8 = problem.is_block_scaled() && problem.b.scale.type == ScaleType::kE8M0 &&
                     problem.a.dtype == DType::kFloat8E4M3 && problem.b.dtype == DType::kFloat8E4M3;
  const int64_t cols = problem.k / problem.b.scale.vec;
  return mxfp8 && problem.k > 0 && problem.k % 128 == 0 && problem.n % 16 == 0 && problem.m % 16 == 0 &&
         problem.out_dtype != DType::kFloat8E4M3 && problem.out.stride_n == 1 && problem.out.stride_m == problem.n &&
         problem.global_scale == nullptr && !has_epilogue(problem.epilogue) &&
         is_contiguous_packed(problem.a, problem.k, cols) && is_contiguous_packed(problem.b, problem.k, cols);
}

}  // namespace tileon
