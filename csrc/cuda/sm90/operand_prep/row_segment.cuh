// What a warp of the preparation takes at a time.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_problem.h"
#include "cuda/sm90/heuristics/block_scaled.h"

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

  __device__ __forceinline__ WarpRow(const ScaledKernelProblem& problem, unsigned group) {
    const int64_t groups_a = row_groups(problem.m);
    is_b = group >= groups_a;
    row = (group - (is_b ? groups_a : 0)) * kRowsPerCta + threadIdx.x / 32;
    exists = row < (is_b ? problem.n : problem.m);
  }
};

// A lane's share of a row of codes and scales: kElements of every 32 * kElements, which share a scale. What they have
// in common is worked out once.
template <int kBits, int kVec, int kElements>
class LaneRow {
 public:
  static constexpr int kSpan = 32 * kElements;
  static_assert(kVec % kElements == 0 && kSpan % (kVec * kScaleBlockCols) == 0);
  using Codes = CodeWords<kElements * kBits / 32>;

  __device__ __forceinline__ LaneRow(const ScaledKernelOperand& operand, int64_t row)
      : codes_(static_cast<const uint8_t*>(operand.data) + row * operand.stride_row + first() * kBits / 8),
        scales_(static_cast<const uint8_t*>(operand.scale) + operand.scale_strides.offset(row, first() / kVec)),
        scale_step_(operand.scale_strides.of_col(kSpan / kVec)) {}

  static __device__ __forceinline__ int first() { return static_cast<int>(threadIdx.x) % 32 * kElements; }

  // Of span `span` of the row.
  __device__ __forceinline__ Codes codes(int span) const {
    return *reinterpret_cast<const Codes*>(codes_ + static_cast<int64_t>(span) * (kSpan * kBits / 8));
  }
  __device__ __forceinline__ uint8_t scale(int span) const { return scales_[span * scale_step_]; }

 private:
  const uint8_t* codes_;
  const uint8_t* scales_;
  int64_t scale_step_;
};

// Calls `take` with the first of each kSpans spans of a row of `k` elements that are segment `segment`'s, of
// `segments`.
template <int kSpans, int kSpan, typename Take>
__device__ __forceinline__ void for_each_spans(int segment, int segments, int k, const Take& take) {
  for (int first = segment * kSpans; first * kSpan < k; first += segments * kSpans) take(first);
}

}  // namespace tileon::sm90
