// How TMA can read an operand: a pure function of its pointer and strides.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"

namespace tileon::sm90 {

struct TmaAccess {
  bool readable;
  Major major;         // where readable
  int64_t line_bytes;  // from one line along the other dimension to the next
};

constexpr int64_t kTmaAlignment = 16;
constexpr int64_t kTmaMaxStride = int64_t{1} << 40;  // bytes, exclusive

constexpr bool tma_stride(int64_t bytes) { return bytes > 0 && bytes < kTmaMaxStride && bytes % kTmaAlignment == 0; }

// `mn` and `k` are the operand's sizes: the stride of a dimension of size 1 (or 0) is never used, so it may be
// anything.
inline TmaAccess tma_access(const Matrix& operand, int64_t batch, int64_t mn, int64_t k, int element_bytes) {
  if (batch == 0 || mn == 0 || k == 0) return {true, Major::kK, kTmaAlignment};  // nothing is read
  if (reinterpret_cast<uintptr_t>(operand.data) % kTmaAlignment != 0) return {false, Major::kK, 0};
  const bool shared = batch == 1 || operand.stride_batch == 0;
  if (!shared && !tma_stride(operand.stride_batch * element_bytes)) return {false, Major::kK, 0};
  if (operand.stride_k == 1 || k == 1) {
    const int64_t line = mn == 1 ? kTmaAlignment : operand.stride_mn * element_bytes;
    if (tma_stride(line)) return {true, Major::kK, line};
  }
  if (operand.stride_mn == 1 || mn == 1) {
    const int64_t line = k == 1 ? kTmaAlignment : operand.stride_k * element_bytes;
    if (tma_stride(line)) return {true, Major::kMn, line};
  }
  return {false, Major::kK, 0};
}

// Whether TMA can write the output, rows of n elements. It writes whole 16 bytes: rows that end within some would have
// what lies behind them overwritten.
inline bool tma_can_write(const Output& out, int64_t batch, int64_t m, int64_t n, int element_bytes) {
  return reinterpret_cast<uintptr_t>(out.data) % kTmaAlignment == 0 && n * element_bytes % kTmaAlignment == 0 &&
         out.stride_n == 1 && (m == 1 || tma_stride(out.stride_m * element_bytes)) &&
         (batch == 1 || tma_stride(out.stride_batch * element_bytes));
}

}  // namespace tileon::sm90
