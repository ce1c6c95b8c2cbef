// How the portable kernels can read an operand: pure functions of its pointer and strides.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"

namespace tileon::sm80 {

struct OperandAccess {
  bool vectors;  // whole chunks along `major`, all of them aligned; else element by element through both strides
  Major major;   // where not `vectors`: the dimension of the smaller stride
};

constexpr int kVectorBytes = 16;    // a chunk: one cp.async, or one load
constexpr int kCodeChunkBytes = 8;  // a chunk of kMmaWidened: eight codes of fp8, 16 bytes as float16

// The access to an operand of a problem, of mn rows (a) or columns (b), by chunks of so many bytes. The stride of a
// dimension of size 1 (or 0) is never used, so it may be anything.
inline OperandAccess operand_access(const Matrix& operand, const Problem& problem, int64_t mn,
                                    int chunk_bytes = kVectorBytes) {
  const int element_bytes = info(problem.a.dtype).bytes;
  const int64_t k = problem.k;
  if (problem.batch == 0 || mn == 0 || k == 0) return {true, Major::kK};  // nothing is read
  const int64_t stride_mn = mn > 1 ? operand.stride_mn : 0;
  const int64_t stride_k = k > 1 ? operand.stride_k : 0;
  const int64_t stride_batch = problem.batch > 1 ? operand.stride_batch : 0;
  const auto aligned = [&](int64_t bytes) { return bytes % chunk_bytes == 0; };
  const bool base =
      aligned(static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data))) && aligned(stride_batch * element_bytes);
  if (base && (stride_k == 1 || k == 1) && aligned(stride_mn * element_bytes)) return {true, Major::kK};
  if (base && (stride_mn == 1 || mn == 1) && aligned(stride_k * element_bytes)) return {true, Major::kMn};
  return {false, stride_k <= stride_mn ? Major::kK : Major::kMn};
}

// Whether an operand can be loaded in 16-byte chunks, `along_k` or along either dimension. Of fp8 it must be k: no
// ldmatrix transposes single bytes.
inline bool reads_vectors(const Operand& operand, const Problem& problem, int64_t mn, bool along_k = false) {
  const OperandAccess access = operand_access(operand, problem, mn);
  return access.vectors && (access.major == Major::kK || !(along_k || is_float8(problem.a.dtype)));
}

// Whether an operand of fp8 can be loaded in 8-byte chunks, along either dimension.
inline bool reads_code_chunks(const Operand& operand, const Problem& problem, int64_t mn) {
  return operand_access(operand, problem, mn, kCodeChunkBytes).vectors;
}

// How a panel of an operand is read (operand_panel.cuh).
enum class PanelAccess : int8_t {
  kVectorsAlongMn,  // mn-major and aligned: 16-byte copies
  kVectorsAlongK,   // k-major and aligned: 16-byte loads, transposed on their way through registers
  kElements,        // anything else: one copy an element, through both strides
};

inline PanelAccess panel_access(const Operand& operand, const Problem& problem, int64_t mn) {
  const OperandAccess access = operand_access(operand, problem, mn);
  if (!access.vectors) return PanelAccess::kElements;
  return access.major == Major::kMn ? PanelAccess::kVectorsAlongMn : PanelAccess::kVectorsAlongK;
}

}  // namespace tileon::sm80
