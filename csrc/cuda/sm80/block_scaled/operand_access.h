// How the portable block-scaled kernels can read an operand's codes: a pure function of its pointer and strides.
#pragma once

#include <cstdint>

#include "../../../problem.h"

namespace tileon::sm80 {

constexpr int kChunkElements = 16;  // that a thread loads at once: no format shares a scale among fewer
TILEON_HOST_DEVICE constexpr int chunk_bytes(ElementType element) {
  return kChunkElements / elements_per_byte(element);
}

// Whether every chunk can be loaded by one instruction. Other operands are copied first.
TILEON_HOST_DEVICE bool reads_chunks(const BlockScaledOperand& operand, int64_t rows, int64_t k) {
  const int64_t row_bytes = k / elements_per_byte(operand.element);
  if (rows == 0 || k == 0) return true;  // nothing is read
  if (operand.stride_k != 1 && row_bytes > 1) return false;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  return (address | (rows > 1 ? operand.stride_row : 0)) % chunk_bytes(operand.element) == 0;
}

}  // namespace tileon::sm80
