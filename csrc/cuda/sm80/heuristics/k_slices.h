// Slices of k: where an output has few tiles, several CTAs share the k of each. Every CTA multiplies one slice into
// sums of its own in scratch, and a second kernel adds these up in the order of k (kernels/add_slices.cuh), so that
// every run has the same bits. Pure functions of the problem, which any C++ compiler takes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "cuda/sm80/heuristics/config.h"

namespace tileon::sm80 {

struct KSlices {
  int count = 1;
  int64_t k = 0;  // of a slice, where there are several: whole k-blocks; the last slice may have less
};

constexpr int kMaxSlices = 64;
constexpr int64_t kMinSliceK = 128;  // a slice's first loads cost as much as the products of some 100 k

// Whether kernels of the family can multiply a slice.
constexpr bool takes_slices(Family family) {
  return family == Family::kMma || family == Family::kMmaGather || family == Family::kMmaWidened ||
         family == Family::kSimt || family == Family::kDmma;
}

// As near to `count` slices as whole k-blocks allow, none of them empty.
inline KSlices slices_of(int64_t k, int64_t count, int block_k) {
  count = std::min({count, int64_t{kMaxSlices}, k / kMinSliceK});
  if (count < 2) return {};
  const int64_t of_slice = ((k + count - 1) / count + block_k - 1) / block_k * block_k;
  return {static_cast<int>((k + of_slice - 1) / of_slice), of_slice};
}

// ---- the sums of the slices in scratch: [batch][slice][m][pitch], of the accumulator's type ----

constexpr int accumulator_bytes(DType operand) { return operand == DType::kFloat64 ? 8 : 4; }

// From row to row: rows begin where four sums are stored at once.
inline int64_t slices_pitch(const Problem& problem) { return (problem.n + 3) / 4 * 4; }

inline int64_t slices_bytes(const Problem& problem, const KSlices& slices) {
  if (slices.count == 1) return 0;
  return problem.batch * slices.count * problem.m * slices_pitch(problem) * accumulator_bytes(problem.a.dtype);
}

// Nanoseconds that the sums take: one more launch, and each sum written and read once. Fitted beside the costs of the
// dense configs (config.h); those of configs with scales are on top of it.
constexpr double kAddSlicesNs = 3350.0, kAddedBytesPerNs = 3770.0;

inline double add_slices_ns(const Problem& problem, const KSlices& slices) {
  return kAddSlicesNs + 2.0 * static_cast<double>(slices_bytes(problem, slices)) / kAddedBytesPerNs;
}

}  // namespace tileon::sm80
