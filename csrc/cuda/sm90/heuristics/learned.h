// What the cost model does not know of a row, learned: pure functions, compiled by any C++ compiler.
//
// The model has each row's time to a few per cent, which is what the rows that matter differ by. What it misses is no
// noise: how lines of an odd pitch share sectors, what a last wave that is nearly empty costs, how two CTAs of an SM
// get in each other's way; and outputs that TMA cannot write. A small network, two hidden layers, makes a factor on the
// expected time of it. It sees the problem, the row, and what the expected time is made of.
//
// Its numbers are those of correction_numbers.h, which benchmarks/fit_correction.py writes. The counterpart in Python
// is benchmarks/correction.py.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/learned_numbers.h"

namespace tileon::sm90 {

static_assert(kCorrectedRows == kDenseConfigCount,
              "correction_numbers.h is of another table: benchmarks/fit_correction.py --reset, until it is fitted");

constexpr int64_t kSectorBytes = 32;  // what L2 reads and writes at once

// How an operand's lines lie in L2's.
struct Lines {
  float straddling;   // the share of them that begin within one of L2's, where every one is as long as L2's
  float half_sector;  // 1 where some begin within a sector
  float missing;      // of a panel, if the whole operand is narrower than one: its share that is not there

  Lines(const Operand& operand, const TmaAccess& access, int64_t mn, int64_t k)
      : straddling(0), half_sector(0), missing(0) {
    const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data) % kLineBytes);
    const int64_t count = access.major == Major::kK ? mn : k;
    const int64_t pitch = count > 1 ? access.line_bytes : kLineBytes;
    const int64_t step = std::min<int64_t>(kLineBytes, pitch & -pitch);  // they begin at all multiples, from the first
    straddling = begin % step != 0 ? 1 : 1 - static_cast<float>(step) / kLineBytes;
    half_sector = (begin | pitch) % kSectorBytes != 0;
    if (access.major == Major::kMn) missing = static_cast<float>(std::max<int64_t>(0, kPanel - mn)) / kPanel;
  }
};

class Correction {
 public:
  Correction(const GemmProblem& problem, const Work& work, int sm_count)
      : sm_count_(sm_count), m_(static_cast<float>(problem.m)), n_(static_cast<float>(problem.n)) {
    const Lines a(problem.a, work.a, problem.m, problem.k), b(problem.b, work.b, problem.n, problem.k);
    const float a_mn = work.a.major == Major::kMn, b_mn = work.b.major == Major::kMn;
    const int64_t out_bytes = problem.n * info(problem.out_dtype).bytes;
    const std::array<float, kProblemFeatures> features = {std::log(m_),
                                                          std::log(n_),
                                                          std::log(static_cast<float>(std::max<int64_t>(1, problem.k))),
                                                          a_mn,
                                                          b_mn,
                                                          a.straddling * (1 - a_mn),
                                                          a.straddling * a_mn,
                                                          a.half_sector * (1 - a_mn),
                                                          a.half_sector * a_mn,
                                                          a.missing,
                                                          b.straddling * (1 - b_mn),
                                                          b.straddling * b_mn,
                                                          b.half_sector * (1 - b_mn),
                                                          b.half_sector * b_mn,
                                                          b.missing,
                                                          static_cast<float>(out_bytes % kSectorBytes != 0),
                                                          static_cast<float>(out_bytes % kLineBytes != 0),
                                                          static_cast<float>(!writes_by_tma(problem))};
    of_problem_ = {};
    add_product(features, kOfProblem, of_problem_);
  }

  // The logarithm of the nanoseconds that a row takes.
  float log_ns(int row, const Cost& cost) const {
    const float log_expected = std::log(static_cast<float>(cost.ns()));
    std::array<float, kHidden> first = of_problem_, second{};
    for (int i = 0; i < kHidden; ++i) first[i] += kOfRow[row][i];
    add_product(features_of(kRows[row], cost, log_expected), kOfCost, first);
    rectify(first);
    std::copy(std::begin(kSecondBias), std::end(kSecondBias), second.begin());
    add_product(first, kSecond, second);
    rectify(second);
    float correction = kLastBias;
    for (int i = 0; i < kHidden; ++i) correction += second[i] * kLast[i];
    return log_expected + correction;
  }

 private:
  std::array<float, kCostFeatures> features_of(const Row& row, const Cost& cost, float log_expected) const {
    const double together = cost.together();
    const float tiles_m = std::ceil(m_ / row.tile.tile_m), tiles_n = std::ceil(n_ / row.tile.tile_n);
    const int at_once = row.splits * clusters_at_once(row.splits, sm_count_);
    const double ctas = cost.share * sm_count_;
    return {static_cast<float>(cost.compute / together),
            static_cast<float>(cost.memory / together),
            static_cast<float>(cost.delivery / together),
            static_cast<float>(cost.l2 / together),
            log_expected,
            static_cast<float>(together / cost.ns()),
            static_cast<float>(std::min(1.0, ctas / (at_once * cost.waves))),
            static_cast<float>(std::min(3.0, cost.share)),
            m_ / (tiles_m * row.tile.tile_m),
            n_ / (tiles_n * row.tile.tile_n)};
  }

  // sums += features * weights
  template <size_t kFeatures>
  static void add_product(const std::array<float, kFeatures>& features, const float (&weights)[kFeatures][kHidden],
                          std::array<float, kHidden>& sums) {
    for (size_t feature = 0; feature < kFeatures; ++feature)
      for (int i = 0; i < kHidden; ++i) sums[i] += features[feature] * weights[feature][i];
  }

  static void rectify(std::array<float, kHidden>& sums) {
    for (float& sum : sums) sum = std::max(0.0f, sum);
  }

  int sm_count_;
  float m_;
  float n_;
  std::array<float, kHidden> of_problem_;
};

}  // namespace tileon::sm90
