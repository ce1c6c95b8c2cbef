// The copy of an operand that kernels read well, before there is memory for it. Plain C++.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon {

// Matrices of rows (columns, where those are adjacent in the operand) that begin at multiples of 16 bytes.
struct AlignedCopy {
  int element_bytes;
  int64_t batch;  // 1, where one matrix serves the whole batch
  int64_t mn, k;
  bool k_is_adjacent;
  int64_t pitch;  // elements from row to row

  AlignedCopy(const Matrix& operand, int64_t batch_of_problem, int64_t mn_, int64_t k_, int element_bytes_)
      : element_bytes(element_bytes_),
        batch(operand.stride_batch == 0 ? 1 : batch_of_problem),
        mn(mn_),
        k(k_),
        k_is_adjacent(operand.stride_k <= operand.stride_mn) {
    const int64_t per_vector = 16 / element_bytes;
    pitch = (inner() + per_vector - 1) / per_vector * per_vector;
  }

  int64_t inner() const { return k_is_adjacent ? k : mn; }
  int64_t outer() const { return k_is_adjacent ? mn : k; }
  int64_t bytes() const { return batch * outer() * pitch * element_bytes; }

  // The operand that it becomes, at `data`: a multiple of 16, or null while there is no memory yet.
  Matrix at(void* data) const {
    const int64_t matrix = batch == 1 ? 0 : outer() * pitch;
    return k_is_adjacent ? Matrix{data, pitch, 1, matrix} : Matrix{data, 1, pitch, matrix};
  }
};

// Of a block-scaled operand's codes: rows of bytes, contiguous whatever the operand's strides.
inline AlignedCopy copy_of_codes(const Operand& operand, int64_t rows, int64_t k) {
  const int64_t row_bytes = k / elements_per_byte(operand.dtype);
  return {Matrix{operand.data, row_bytes, 1, 0}, 1, rows, row_bytes, 1};
}

constexpr void* kNoMemoryYet = nullptr;  // aligned to everything, so that the choice sees what it will see

}  // namespace tileon
