// How the portable kernels can read an operand: a pure function of its pointer and strides.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/major.h"

namespace tileon::sm80 {

struct OperandAccess {
  bool vectors;  // 16-byte chunks along `major`, all of them aligned; else element by element through both strides
  Major major;   // where not `vectors`: the dimension of the smaller stride
};

constexpr int64_t kVectorBytes = 16;

constexpr bool aligned(int64_t bytes) { return bytes % kVectorBytes == 0; }

// `mn` and `k` are the operand's sizes: the stride of a dimension of size 1 (or 0) is never used, so it may be
// anything.
inline OperandAccess operand_access(const Matrix& operand, int64_t batch, int64_t mn, int64_t k, int element_bytes) {
  if (batch == 0 || mn == 0 || k == 0) return {true, Major::kK};  // nothing is read
  const int64_t stride_mn = mn > 1 ? operand.stride_mn : 0;
  const int64_t stride_k = k > 1 ? operand.stride_k : 0;
  const int64_t stride_batch = batch > 1 ? operand.stride_batch : 0;
  const bool base =
      aligned(static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data))) && aligned(stride_batch * element_bytes);
  if (base && (stride_k == 1 || k == 1) && aligned(stride_mn * element_bytes)) return {true, Major::kK};
  if (base && (stride_mn == 1 || mn == 1) && aligned(stride_k * element_bytes)) return {true, Major::kMn};
  return {false, stride_k <= stride_mn ? Major::kK : Major::kMn};
}

}  // namespace tileon::sm80
