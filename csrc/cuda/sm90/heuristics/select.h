// Which row of the Hopper tile table takes a problem: a pure function, compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/learned.h"

namespace tileon::sm90 {

// Whether the sums are finished by one of the formulas that every kernel applies while it stores them (gemm/round.cuh).
inline bool is_cheap_epilogue(const GemmProblem& problem) {
  return problem.pre_activation == nullptr && is_cheap(problem.epilogue);
}

// Kernels that send the sums through shared memory for any formula but the cheap ones take up to twice as long then.
inline bool may_choose(const Row& row, bool cheap) {
  return cheap || has_activated_store(row.tile) || !persistent(row.tile);
}

// Rows that the cost model expects to take at most so many times as long as the cheapest one are looked at again.
constexpr double kNear = 1.4;

// The row that is expected to be fastest, by index; -1 where none can run the problem. The costs are those of cheap
// formulas.
inline int choose(const GemmProblem& problem, const Gpu& gpu) {
  if (why_not(problem, gpu) != nullptr) return -1;
  const Work work(problem);
  const bool cheap = is_cheap_epilogue(problem);
  std::array<Cost, kDenseConfigCount> costs{};
  std::array<double, kDenseConfigCount> expected;
  expected.fill(std::numeric_limits<double>::infinity());
  for (int row = 0; row < kDenseConfigCount; ++row) {
    if (!may_choose(kRows[row], cheap)) continue;
    costs[row] = cost_of(kRows[row], problem, work, gpu.sm_count);
    expected[row] = costs[row].ns();
  }
  const double near = kNear * *std::min_element(expected.begin(), expected.end());
  const Correction correction(problem, work, gpu.sm_count);
  int best = -1;
  float least = std::numeric_limits<float>::infinity();
  for (int row = 0; row < kDenseConfigCount; ++row) {
    if (expected[row] > near) continue;
    const float log_ns = correction.log_ns(row, costs[row]);
    if (log_ns >= least) continue;
    best = row;
    least = log_ns;
  }
  return best;
}

}  // namespace tileon::sm90
