// How a product is going to be run: by which config, after which copies, with which memory. Plain C++.
#pragma once

#include <cstdint>
#include <optional>

#include "core/elementwise_problems.h"
#include "cuda/dispatch/backends.h"
#include "cuda/sm80/sm80.h"

namespace tileon {

// ---- copies ----

// What a copy's lines begin at multiples of, in bytes: L2's sectors, and L2's lines where lines are long, for which TMA
// takes up to a third less time (csrc/cuda/sm90/mainloop/shared_loads.cuh).
constexpr int64_t kCopySectorBytes = 32, kCopyLineBytes = 128, kLongLineBytes = 512;

// The copy of an operand that kernels read well: aligned rows or, unless it must lie along k, columns where those are
// adjacent in the operand.
struct AlignedCopy {
  DType dtype;    // of its elements
  int64_t batch;  // 1, where one matrix serves the whole batch
  int64_t mn, k;
  bool k_is_adjacent;
  int64_t pitch;  // elements from row to row

  AlignedCopy(const Matrix& operand, int64_t batch_of_problem, int64_t mn_, int64_t k_, DType dtype_,
              bool along_k = false)
      : dtype(dtype_),
        batch(operand.stride_batch == 0 ? 1 : batch_of_problem),
        mn(mn_),
        k(k_),
        k_is_adjacent(along_k || operand.stride_k <= operand.stride_mn) {
    const int64_t bytes = inner() * info(dtype).bytes;
    const int64_t unit = (bytes < kLongLineBytes ? kCopySectorBytes : kCopyLineBytes) / info(dtype).bytes;
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

// ---- the plan ----

// A way of computing a product: a config, the problem as that config reads it, and what has to be there first. Where
// results are batch invariant, k is not sliced.
struct Way {
  BackendConfig config;  // no backend where none is for the GPU
  Problem problem;
  std::optional<AlignedCopy> a, b;

  Way(const BackendConfig& config_, const Problem& problem_) : config(config_), problem(problem_) {
    if (is_batch_invariant.load(std::memory_order_relaxed)) problem.may_slice_k = false;
  }

  // What it asks for besides the result is one buffer: a's copy, b's, the config's scratch, each from a multiple of 256
  // bytes on.
  int64_t begin_of_b() const { return bytes_of(a); }
  int64_t begin_of_scratch() const { return bytes_of(a) + bytes_of(b); }
  int64_t bytes(const Gpu& gpu) const { return begin_of_scratch() + config.scratch_bytes(problem, gpu); }

 private:
  static int64_t bytes_of(const std::optional<AlignedCopy>& copy) {
    return copy ? (copy->bytes() + 255) / 256 * 256 : 0;
  }
};

// By a config that was chosen already. The copies of codes do not depend on it.
inline Way plan_of(const BackendConfig& config, const Problem& problem) {
  Way way(config, problem);
  if (problem.is_block_scaled()) {
    way.a = plan_copy_of_codes(problem.a, problem.m, problem);
    way.b = plan_copy_of_codes(problem.b, problem.n, problem);
  }
  return way;
}

// The fastest way that needs no scratch, of operands that are read where they are.
inline Way plan_without_memory(const Backends& backends, Problem problem, const Gpu& gpu) {
  problem.may_slice_k = false;
  return plan_of(backends.choose(problem, gpu, false), problem);
}

inline void plan_copy(std::optional<AlignedCopy>& copy, Operand& operand, int64_t mn, const Problem& problem,
                      DType dtype, WantedCopy wanted) {
  copy.emplace(operand, problem.batch, mn, problem.k, dtype, wanted == WantedCopy::kAlongK);
  operand = {copy->at(kNoMemoryYet), dtype, {}};
}

// The way of a product without scales, where it has neither config nor copies yet: what the first willing backend
// chooses, after copies where they pay. Copied is an operand as it is, where the kernels cannot read it well; and both
// fp8 operands as float16, where the portable kernels, the last backend, cannot read one of them well.
inline void plan_dense(const Backends& backends, Way& way, const Gpu& gpu) {
  Problem& problem = way.problem;
  std::optional<Problem> fixed;  // where results are batch invariant, the copies do not hang on the rows either
  if (is_batch_invariant.load(std::memory_order_relaxed)) fixed = with_fixed_rows(problem);
  const Problem& asked = fixed ? *fixed : problem;
  const auto copies_pay = [&] { return sm80::pays_for_copies(asked, gpu); };  // asked where a copy is wanted alone
  for (const Backend* backend : backends.all) {
    if (!is_for(*backend, gpu)) continue;
    if (backend == backends.all.back() && sm80::wants_widening(problem, gpu) && copies_pay()) {
      plan_copy(way.a, problem.a, problem.m, problem, DType::kFloat16, WantedCopy::kAsItLies);
      plan_copy(way.b, problem.b, problem.n, problem, DType::kFloat16, WantedCopy::kAsItLies);
      return plan_dense(backends, way, gpu);  // from the first backend on: they may take float16
    }
    const WantedCopy of_a = way.a ? WantedCopy::kNone : backend->wants_copy(Side::kA, asked);
    const WantedCopy of_b = way.b ? WantedCopy::kNone : backend->wants_copy(Side::kB, asked);
    if ((of_a != WantedCopy::kNone || of_b != WantedCopy::kNone) && copies_pay()) {
      if (of_a != WantedCopy::kNone) plan_copy(way.a, problem.a, problem.m, problem, problem.a.dtype, of_a);
      if (of_b != WantedCopy::kNone) plan_copy(way.b, problem.b, problem.n, problem, problem.b.dtype, of_b);
    }
    const Choice choice = choice_of(*backend, problem, gpu);
    if (choice.config < 0) continue;
    way.config = backends.or_faster(*backend, choice, problem, gpu);
    return;
  }
  way.config = {};
}

inline Way plan_of_dense(const Backends& backends, const Problem& problem, const Gpu& gpu) {
  Way way({}, problem);
  plan_dense(backends, way, gpu);
  return way;
}

// The way that is expected to be fastest.
inline Way plan(const Backends& backends, const Problem& problem, const Gpu& gpu) {
  if (problem.is_scaled()) return plan_of(backends.choose(problem, gpu), problem);
  return plan_of_dense(backends, problem, gpu);
}

}  // namespace tileon
