// What a warp of the preparation takes at a time.
#pragma once

#include <cstdint>

#include "../../../problem.h"
#include "config.h"

namespace tileon::sm90 {

// Some codes of a lane.
template <int kWords>
struct alignas(kWords * 4) CodeWords {
  uint32_t words[kWords];
};

// The row of this warp, in a CTA that has group `group` of kRowsPerCta rows: first come those of a.
struct WarpRow {
  bool is_b;
  int64_t row;
  bool exists;

  __device__ __forceinline__ WarpRow(const BlockScaledProblem& problem, unsigned group) {
    const int64_t groups_a = row_groups(problem.m);
    is_b = group >= groups_a;
    row = (group - (is_b ? groups_a : 0)) * kRowsPerCta + threadIdx.x / 32;
    exists = row < (is_b ? problem.n : problem.m);
  }
};

// Calls `take` with the beginnings of the strips of a row of `k` that are CTA `cta`'s, of `ctas`.
template <typename Take>
__device__ __forceinline__ void for_each_strip(int cta, int ctas, int k, const Take& take) {
  for (int begin = cta * kStripElements; begin < k; begin += ctas * kStripElements) take(begin);
}

}  // namespace tileon::sm90
