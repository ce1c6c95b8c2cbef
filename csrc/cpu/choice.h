// What multiplies on the CPU: tiles, or ATen's product of the accumulator's dtype. Pure functions of the problem and of
// what is true of the processor, by times of one thread.
#pragma once

#include "cpu/tiles/block.h"

namespace tileon {

// ---- float32 and float64 ----

// Few rows by a weight whose rows are adjacent. With AVX2 32 x 1024 x 1024 takes 940 us by tiles against ATen's 1030,
// 64 rows 1845 against 1745, across (NN) 32 rows 1590 against 980.
constexpr int64_t kFewRowsByTiles = 32;

// Multiplications up to which tiles take less: with AVX2 4.5 to 15 us, where ATen takes 7 (float64) or 13 (float32)
// besides its arithmetic.
constexpr double kSmallFloat32 = 160e3, kSmallFloat64 = 40e3;

// Rows of a matrix of the result that one matrix `b` is multiplied for.
constexpr int64_t rows_of_one_b(const Problem& problem) {
  return problem.b.stride_batch == 0 ? problem.batch * problem.m : problem.m;
}

// Whether tiles take a product that is not small, on a processor where they are faster than ATen: there they take 0.5
// to 0.9 of its time (float32) or 0.4 to 0.95 (float64) on a Zen 5, but for a short k, which leaves lanes empty, for
// few columns, and for few rows by a `b` whose columns are adjacent, which is copied.
constexpr bool is_for_fast_tiles(const Problem& problem) {
  const bool is_float32 = problem.a.dtype == DType::kFloat32;
  const int64_t least_k = is_float32 ? 96 : 192, least_rows = is_float32 ? 16 : 64;
  constexpr int64_t kLeastColumns = 4;
  return problem.k >= least_k && problem.n >= kLeastColumns &&
         (problem.b.stride_k == 1 || rows_of_one_b(problem) >= least_rows);
}

// Whether ATen multiplies a product of float32 or float64. Operands of 16 and of 8 bits it would have to widen as a
// whole. ATen's sums hang on the number of rows, which results that are batch invariant must not.
constexpr bool is_for_aten(const Problem& problem, bool is_batch_invariant, bool has_fast_tiles) {
  const bool is_float32 = problem.a.dtype == DType::kFloat32;
  if (is_batch_invariant || problem.is_scaled() || (!is_float32 && problem.a.dtype != DType::kFloat64)) return false;
  const double whole_groups = static_cast<double>((problem.k + kGroup - 1) / kGroup * kGroup);
  const double products =
      static_cast<double>(problem.batch * problem.m) * static_cast<double>(problem.n) * whole_groups;
  if (products <= (is_float32 ? kSmallFloat32 : kSmallFloat64)) return false;
  if (is_float32 && problem.b.stride_k == 1 && problem.batch * problem.m <= kFewRowsByTiles) return false;
  return !(has_fast_tiles && is_for_fast_tiles(problem));
}

// ---- operands with e8m0 scales ----

// Whether operands that may be folded are: as on Hopper where there are more than a few rows, beside which one more
// pass over the weight's codes counts for little; of one row it would take twice as long as the product. A fold of
// mxfp4 would be such a pass, and save none. Where sums must not hang on the rows, whatever these are.
inline bool folds(const Problem& problem, bool is_batch_invariant) {
  constexpr int64_t kFewRows = 64;
  return problem.may_be_folded() && !problem.is_mxfp4() && (is_batch_invariant || problem.m > kFewRows);
}

// ---- bfloat16 ----

// Whether ATen may multiply rows of bfloat16, in float32 sums that are rounded once: where the processor has an
// instruction for pairs of bfloat16, which oneDNN takes as the tiles do, and nothing is subnormal, which it would count
// as 0. Not with a bias, before which aten::addmm rounds the sums for some strides. On a Zen 4 256 rows by 2048 x 2048
// take 10.0 ms so and 13.0 ms by tiles, 16 rows 0.93 and 1.01 ms, besides 0.5 ms for looking at the numbers.
inline bool is_bfloat16_for_aten(const Problem& problem, bool is_batch_invariant) {
  constexpr int64_t kManyRows = 64;
  constexpr double kManyProducts = 32e6;
  if (is_batch_invariant || problem.is_scaled()) return false;
  if (problem.a.dtype != DType::kBFloat16 || problem.b.dtype != DType::kBFloat16) return false;
  if (problem.out_dtype != DType::kBFloat16 || has_epilogue(problem.epilogue)) return false;
  return problem.batch == 1 && problem.m >= kManyRows && problem.products() >= kManyProducts;
}

}  // namespace tileon
