// How the portable block-scaled kernels can read an operand's codes: a pure function of its pointer and strides.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon::sm80 {

// What the widest of a kernel's loads takes: a half or a whole block of 32 elements, of nvfp4 a block of 16.
constexpr int load_bytes(ScaleType scale) { return scale == ScaleType::kE8M0 ? 16 : 8; }

// Whether every load of a row's codes is aligned. Other operands are copied first.
inline bool reads_rows(const Operand& operand, ScaleType scale, int64_t rows, int64_t k) {
  const int64_t row_bytes = k / elements_per_byte(operand.dtype);
  if (rows == 0 || k == 0) return true;  // nothing is read
  if (operand.stride_k != 1 && row_bytes > 1) return false;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  return (address | (rows > 1 ? operand.stride_mn : 0)) % load_bytes(scale) == 0;
}

}  // namespace tileon::sm80
