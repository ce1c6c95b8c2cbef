// Which config of the Hopper tile tables takes a dense product of 16 bits, or a block-scaled one: pure functions,
// compiled by any C++ compiler. Those of fp8, int8 and float32 stand beside their tables.
#pragma once

#include <limits>
#include <vector>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/cost_numbers.h"

namespace tileon::sm90 {

// Whether the sums are finished by one of the formulas that every kernel applies while it stores them
// (epilogue/epilogue_ops.cuh).
inline bool is_cheap_epilogue(const Problem& problem) {
  return problem.pre_activation == nullptr && is_cheap(problem.epilogue);
}

// Kernels that send the sums through shared memory for any formula but the cheap ones take up to twice as long then.
inline bool may_choose(const Row& row, bool cheap) {
  return cheap || has_activated_store(row.tile) || !persistent(row.tile);
}

// The config that is expected to be fastest, by index; -1 where none can run the problem. The costs are those of cheap
// formulas.
inline int choose(const Problem& problem, const Gpu& gpu) {
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
inline std::vector<Candidate> explain(const Problem& problem, const Gpu& gpu) {
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

// ---- block-scaled products ----

// The cheapest row of a route whose operands are prepared.
inline int choose(Route route, const Problem& problem, const Gpu& gpu) {
  const Encoding encoding = is_by_encoding(route) ? Encoding::kInt8 : Encoding::kBFloat16;
  const Problem prepared = prepared_problem(problem, encoding, nullptr, nullptr);
  const auto is_of_route = [&](const BlockScaledRow& row) { return row.route == route; };
  if (encoding == Encoding::kBFloat16) {
    const DenseWork work(prepared, gpu.sm_count, kGpuNumbers);
    return cheapest(kBlockScaledConfigs, is_of_route, [&](const BlockScaledRow& row) {
      return cost_of(kCostedConfigs[row.tile], work, std::numeric_limits<double>::infinity()).ns();
    });
  }
  const Work work(prepared);
  return cheapest(kBlockScaledConfigs, is_of_route, [&](const BlockScaledRow& row) {
    return largest_bound_ns(dense_row_of(row, encoding), prepared, work, gpu.sm_count);
  });
}

// The row that is expected to be fastest; -1 where none can run the problem, or the portable kernels are faster.
inline int choose_block_scaled(const Problem& problem, const Gpu& gpu) {
  if (problem.k > 0 && problem.m <= max_small_m(problem) && why_not(Route::kSmallM, problem, gpu) == nullptr)
    return cheapest(
        kBlockScaledConfigs, [](const BlockScaledRow& row) { return row.route == Route::kSmallM; },
        [&](const BlockScaledRow& row) { return small_m_cost(problem.m, kSmallMTiles[row.tile]); });
  if (problem.k == 0 || problem.m < kPreparePaysFromRows || problem.n < kPreparePaysFromRows) return -1;
  const bool is_prepared = problem.prepared_b.data != nullptr;
  const bool by_encoding = is_prepared ? problem.prepared_b.form == PreparedForm::kInt8
                                       : problem.is_mxfp4() && problem.products() >= kInt8PaysFrom;
  const Route narrow = may_be_float8(problem) ? Route::kFloat8 : Route::kInt8;
  const Route route = by_encoding && problem.k <= kInt8MaxK ? narrow : Route::kBFloat16;
  return why_not(route, problem, gpu) == nullptr ? choose(route, problem, gpu) : -1;
}

}  // namespace tileon::sm90
