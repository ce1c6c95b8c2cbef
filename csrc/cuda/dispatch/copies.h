// Aligned copies of operands, which kernels read well: how they lie, and what it takes to make them. Plain C++.
#pragma once

#include <cstdint>
#include <optional>

#include "core/elementwise_problems.h"
#include "core/problem.h"
#include "cuda/runtime/backend.h"

namespace tileon {

// ---- how they lie ----

// What a copy's lines begin at multiples of, in bytes: L2's sectors, and L2's lines where lines are long, for which TMA
// takes up to a third less time (csrc/cuda/sm90/mainloop/shared_loads.cuh).
constexpr int64_t kCopySectorBytes = 32, kCopyLineBytes = 128, kLongLineBytes = 512;

// The copy of an operand that kernels read well: aligned rows or, unless it must lie along k, columns where those are
// adjacent in the operand. With `whole_lines` all lines begin where L2's do, however short they are.
struct AlignedCopy {
  DType dtype;    // of its elements
  int64_t batch;  // 1, where one matrix serves the whole batch
  int64_t mn, k;
  bool k_is_adjacent;
  int64_t pitch;  // elements from row to row

  AlignedCopy(const Matrix& operand, int64_t batch_of_problem, int64_t mn_, int64_t k_, DType dtype_,
              bool along_k = false, bool whole_lines = false)
      : dtype(dtype_),
        batch(operand.stride_batch == 0 ? 1 : batch_of_problem),
        mn(mn_),
        k(k_),
        k_is_adjacent(along_k || operand.stride_k <= operand.stride_mn) {
    const int64_t bytes = inner() * info(dtype).bytes;
    const bool has_sectors = bytes < kLongLineBytes && !whole_lines;
    const int64_t unit = (has_sectors ? kCopySectorBytes : kCopyLineBytes) / info(dtype).bytes;
    pitch = (inner() + unit - 1) / unit * unit;
  }

  int64_t inner() const { return k_is_adjacent ? k : mn; }
  int64_t outer() const { return k_is_adjacent ? mn : k; }
  int64_t bytes() const { return batch * outer() * pitch * info(dtype).bytes; }

  // How it is made of an operand that has its dtype.
  OperandCopyProblem of(const Matrix& operand, void* data) const {
    const int element = info(dtype).bytes;
    const int64_t row = k_is_adjacent ? operand.stride_mn : operand.stride_k;
    const int64_t column = k_is_adjacent ? operand.stride_k : operand.stride_mn;
    return {.batch = batch,
            .rows = outer(),
            .columns = inner(),
            .element_bytes = element,
            .from = static_cast<const uint8_t*>(operand.data),
            .from_batch = operand.stride_batch * element,
            .from_row = row * element,
            .from_column = column * element,
            .to = static_cast<uint8_t*>(data),
            .to_batch = outer() * pitch * element,
            .to_row = pitch * element};
  }

  // The operand that it becomes, at `data`: a multiple of 16, or null while there is no memory yet.
  Matrix at(void* data) const {
    const int64_t matrix = batch == 1 ? 0 : outer() * pitch;
    return k_is_adjacent ? Matrix{data, pitch, 1, matrix} : Matrix{data, 1, pitch, matrix};
  }
};

constexpr void* kNoMemoryYet = nullptr;  // aligned to everything, so that the choice sees what it will see

// Of a block-scaled operand's codes: rows of bytes, contiguous whatever the operand's strides.
inline AlignedCopy copy_of_codes(const Operand& operand, int64_t rows, int64_t k) {
  const int64_t row_bytes = k / elements_per_byte(operand.dtype);
  return {Matrix{operand.data, row_bytes, 1, 0}, 1, rows, row_bytes, operand.dtype};
}

// The copy that every backend wants of an operand's codes, if any.
inline std::optional<AlignedCopy> plan_copy_of_codes(const Operand& operand, int64_t rows, const Problem& problem) {
  if (!wants_copy_of_codes(operand, rows, problem)) return std::nullopt;
  return copy_of_codes(operand, rows, problem.k);
}

// ---- what they take ----

// Nanoseconds that the copies of a product begin with, and the share of the memory's rate at which bytes are read and
// written: of lines that stay lines, fitted to 1,880 products of 16 bits on an H100, and of lines that become columns,
// to copies of fp8 on an H200.
constexpr double kCopyStartNs = 2000.0;
constexpr double kCopyShareOfMemory = 0.9, kTransposeShareOfMemory = 0.72;
constexpr double kH200BytesPerNs = 4800.0;  // where nothing is known, and on other GPUs than Hopper's, whose kernels'
                                            // costs are all an H200's

// And what a transpose of single bytes begins with: few CTAs, each of which waits for many loads, of words or of bytes.
constexpr double kTransposeWordsNs = 1500.0, kTransposeBytesNs = 5000.0;

// More, where elements become those of another dtype: torch copies them, an operand in a launch.
constexpr double kConversionNs = 3000.0;

// A way with copies must be expected to take less than this share of what needs none. Of float32 a smaller one:
// Hopper's TF32 kernels take longer than their costs say, most of all with an activation that is not cheap. Over 46
// products of an H100 the choice between the two loses 10 % with 1, 1.2 % with 0.85; over 27 of 16 bits (2.5 %) and 54
// of fp8 (5 %) a smaller share gains 0.3 % at most.
constexpr double most_of_others(DType dtype) { return dtype == DType::kFloat32 ? 0.85 : 1.0; }

// One operand's, of `elements` elements, without the start. Where its lines begin counts only if the price may hang on
// that: results that are batch invariant may not.
inline double copy_ns(const Operand& operand, const AlignedCopy& copy, int64_t elements, bool knows_begin,
                      const Gpu& gpu) {
  const bool is_transposed = copy.k_is_adjacent && operand.stride_k > operand.stride_mn;
  const bool is_converted = copy.dtype != operand.dtype;
  const bool knows_rate = gpu.capability == 90 && gpu.memory_gb_a_second > 0;
  const double rate = knows_rate ? gpu.memory_gb_a_second : kH200BytesPerNs;
  const int64_t words = operand.stride_k | static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data));
  const bool has_bytes = is_transposed && info(operand.dtype).bytes == 1;
  const double waiting = !has_bytes ? 0 : knows_begin && words % 4 == 0 ? kTransposeWordsNs : kTransposeBytesNs;
  const double moved = static_cast<double>(elements) * (info(operand.dtype).bytes + info(copy.dtype).bytes);
  return (is_converted ? kConversionNs : waiting) +
         moved / (rate * (is_transposed ? kTransposeShareOfMemory : kCopyShareOfMemory));
}

}  // namespace tileon
