// How the portable block-scaled kernels can read an operand's codes: a pure function of its pointer and strides.
#pragma once

#include <cstdint>

#include "../../../problem.h"

namespace tileon::sm80 {

// The widest load that fits every row. Rows of nvfp4 are often multiples of 8 bytes only.
enum class CodeAccess : int8_t { k16Bytes, k8Bytes, kBytes };

TILEON_HOST_DEVICE CodeAccess code_access(const BlockScaledOperand& operand, int64_t rows, int64_t k) {
  const int64_t row_bytes = k / elements_per_byte(operand.element);
  if (rows == 0 || k == 0) return CodeAccess::k16Bytes;  // nothing is read
  if (operand.stride_k != 1 && row_bytes > 1) return CodeAccess::kBytes;
  const int64_t bits =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data)) | (rows > 1 ? operand.stride_row : 0);
  if (bits % 16 == 0) return CodeAccess::k16Bytes;
  return bits % 8 == 0 ? CodeAccess::k8Bytes : CodeAccess::kBytes;
}

}  // namespace tileon::sm80
