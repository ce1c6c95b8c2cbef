// Which config of the Hopper tile table takes a dense product of 16 bits: pure functions, compiled by any C++ compiler.
#pragma once

#include <limits>
#include <vector>

#include "cuda/sm90/heuristics/cost_numbers.h"

namespace tileon::sm90 {

// Whether the sums are finished by one of the formulas that every kernel applies while it stores them
// (epilogue/epilogue_ops.cuh).
inline bool is_cheap_epilogue(const GemmProblem& problem) {
  return problem.pre_activation == nullptr && is_cheap(problem.epilogue);
}

// Kernels that send the sums through shared memory for any formula but the cheap ones take up to twice as long then.
inline bool may_choose(const Row& row, bool cheap) {
  return cheap || has_activated_store(row.tile) || !persistent(row.tile);
}

// The config that is expected to be fastest, by index; -1 where none can run the problem. The costs are those of cheap
// formulas.
inline int choose(const GemmProblem& problem, const Gpu& gpu) {
  if (why_not(problem, gpu) != nullptr) return -1;
  const DenseWork work(problem, gpu.sm_count, kGpuNumbers);
  const bool cheap = is_cheap_epilogue(problem);
  int best = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int row = 0; row < kDenseConfigCount; ++row) {
    if (!may_choose(kRows[row], cheap)) continue;
    const double expected = cost_of(kCostedConfigs[row], work, least).ns();
    if (expected >= least) continue;
    best = row;
    least = expected;
  }
  return best;
}

// A config that `choose` weighs, and what it expects of it.
struct Candidate {
  const char* name;
  double ns;  // in all
  Cost cost;
};

// All of them, in the order of the table; none where the kernels cannot run the problem.
inline std::vector<Candidate> explain(const GemmProblem& problem, const Gpu& gpu) {
  std::vector<Candidate> candidates;
  if (why_not(problem, gpu) != nullptr) return candidates;
  const DenseWork work(problem, gpu.sm_count, kGpuNumbers);
  const bool cheap = is_cheap_epilogue(problem);
  for (int row = 0; row < kDenseConfigCount; ++row) {
    if (!may_choose(kRows[row], cheap)) continue;
    const Cost cost = cost_of(kCostedConfigs[row], work, std::numeric_limits<double>::infinity());
    candidates.push_back({kRows[row].name, cost.ns(), cost});
  }
  return candidates;
}

}  // namespace tileon::sm90
