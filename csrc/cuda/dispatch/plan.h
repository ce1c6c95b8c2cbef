// How a product is going to be run: by which config, after which copies, with which memory. Plain C++.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "cuda/dispatch/backends.h"
#include "cuda/dispatch/copies.h"
#include "cuda/sm80/sm80.h"

namespace tileon {

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

// A way of a product without scales that begins with copies, and what these take. `asked` is the problem or, where
// results are batch invariant, one of other rows: nothing that is weighed hangs on the rows then, nor do the copies'
// pitches.
struct CopiedWay {
  Way way;
  double copies_ns = kCopyStartNs;

  explicit CopiedWay(const Problem& problem) : way({}, problem) {}

  void copy(Side side, DType dtype, WantedCopy wanted, const Problem& asked, const Gpu& gpu) {
    if (wanted == WantedCopy::kNone) return;
    const bool is_a = side == Side::kA;
    Problem& problem = way.problem;
    Operand& operand = is_a ? problem.a : problem.b;
    AlignedCopy& made = (is_a ? way.a : way.b)
                            .emplace(operand, problem.batch, is_a ? problem.m : problem.n, problem.k, dtype,
                                     wanted == WantedCopy::kAlongK, !asked.may_slice_k);
    const int64_t matrices = made.batch == 1 ? 1 : asked.batch;
    const int64_t elements = matrices * (is_a ? asked.m : asked.n) * problem.k;
    copies_ns += copy_ns(operand, made, elements, asked.may_slice_k, gpu);
    operand = {made.at(kNoMemoryYet), dtype, {}};
  }
};

// The way of a product without scales: of operands as they lie or, where that is expected to take less, of copies of
// what a backend's kernels cannot read well, the first one's that takes them; where none does, of both fp8 operands as
// float16, if the portable kernels cannot read one of them well.
inline Way plan_of_dense(const Backends& backends, const Problem& problem, const Gpu& gpu) {
  std::optional<Problem> fixed;
  if (is_batch_invariant.load(std::memory_order_relaxed)) fixed = with_fixed_rows(problem);
  const Problem& asked = fixed ? *fixed : problem;
  const Weighed as_they_lie = backends.weigh(problem, gpu);
  Way best(as_they_lie.config, problem);
  double best_ns = as_they_lie.config.backend == nullptr ? std::numeric_limits<double>::infinity()
                                                         : as_they_lie.expected_ns * most_of_others(problem.a.dtype);
  const auto consider = [&](const CopiedWay& copied, const Weighed& chosen) {
    if (chosen.config.backend == nullptr || chosen.expected_ns < 0) return;
    const double ns = copied.copies_ns + chosen.expected_ns;
    if (ns >= best_ns) return;
    best = copied.way;
    best.config = chosen.config;
    best_ns = ns;
  };
  for (const Backend* backend : backends.all) {
    if (!is_for(*backend, gpu)) continue;
    const WantedCopy of_a = backend->wants_copy(Side::kA, asked), of_b = backend->wants_copy(Side::kB, asked);
    if (of_a == WantedCopy::kNone && of_b == WantedCopy::kNone) continue;
    CopiedWay copied(problem);
    copied.copy(Side::kA, problem.a.dtype, of_a, asked, gpu);
    copied.copy(Side::kB, problem.b.dtype, of_b, asked, gpu);
    const Weighed chosen = backends.weigh_from(*backend, copied.way.problem, gpu);
    consider(copied, chosen);
    if (chosen.config.backend != nullptr) return best;  // a later backend's kernels are slower where copies pay
  }
  if (sm80::wants_widening(asked, gpu)) {
    CopiedWay copied(problem);
    copied.copy(Side::kA, DType::kFloat16, WantedCopy::kAsItLies, asked, gpu);
    copied.copy(Side::kB, DType::kFloat16, WantedCopy::kAsItLies, asked, gpu);
    consider(copied, backends.weigh(copied.way.problem, gpu));
  }
  return best;
}

// The way that is expected to be fastest.
inline Way plan(const Backends& backends, const Problem& problem, const Gpu& gpu) {
  if (problem.is_scaled()) return plan_of(backends.choose(problem, gpu), problem);
  return plan_of_dense(backends, problem, gpu);
}

}  // namespace tileon
