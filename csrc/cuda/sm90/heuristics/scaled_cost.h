// How long each way of computing a product with scales is expected to take, in nanoseconds: kernels that decode codes,
// for few rows or in the main loop; and passes over the operands, after which others multiply what they became. Pure
// functions, compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/cost.h"
#include "cuda/sm90/heuristics/cost_numbers.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/heuristics/small_m.h"

namespace tileon::sm90 {

// ---- few rows ----

// What their kernels take: to start, once and in each round of tiles; for a row of the output that a CTA stores; for a
// stage, for a row of the tile in it, and for a stage of the tile of 64 rows, which has half as many consumers; and
// where CTAs share k, once and for each of them. Those of two operands with scales were fitted to 4,477 random products
// of an H200 (benchmarks/results/h200/block_scaled_random.csv.xz), every second of which the fit did not see: 5 to 7 %
// of the time. The others to products of 64 to 256 rows on an H200, of float32 scales that change along k by hand, to
// nine; those of a weight of fp4 to 253 products of any number of rows. By hand, too, a round under scales of rows: to
// 50 products of 24 to 512 rows by five weights.
struct FewRowsNumbers {
  double start, round, stored_row, stage, row, stage_of_64, sharing, share;
};
constexpr FewRowsNumbers by_rounds(double round, double stage, double row, double sharing) {
  return {0, round, 0, stage, row, stage + row * kSmallMMaxTileM, sharing, 0};
}
constexpr FewRowsNumbers of_two(double start, double stage, double row, double stage_of_64) {
  return {start, 2670, 28.7, stage, row, stage_of_64, 606, 130.4};
}
inline FewRowsNumbers few_rows_numbers(const Problem& problem) {
  const bool is_a_e4m3 = problem.a.dtype == DType::kFloat8E4M3, is_b_e4m3 = problem.b.dtype == DType::kFloat8E4M3;
  if (problem.b.scale.type == ScaleType::kFloat32)
    return is_constant_along_k(problem.b, problem.k) ? by_rounds(11600, 269.1, 6.41, 678)
                                                     : by_rounds(9630, 620, 6, 678);
  if (problem.is_weight_only())
    return is_b_e4m3 ? by_rounds(8175, 460.5, 6, 1383) : by_rounds(6626, 604.9, 11.47, 2770);
  if (is_a_e4m3 && is_b_e4m3) return of_two(4295, 684, 1.5, 954);
  if (is_a_e4m3 || is_b_e4m3) return of_two(4637, 547, 18.1, 1461);
  if (problem.b.scale.type == ScaleType::kE8M0) return of_two(5700, 430, 10.8, 1330);
  return of_two(3601, 662, 6.1, 1393);
}

inline double few_rows_ns(const Problem& problem, int tile_m, const Gpu& gpu) {
  const FewRowsNumbers numbers = few_rows_numbers(problem);
  const SmallMWork work(problem, tile_m);
  const int splits = small_m_splits(work, tile_m, gpu);
  const double stored = numbers.stored_row * static_cast<double>(std::min<int64_t>(problem.m, tile_m));
  const double stage = tile_m == kSmallMMaxTileM ? numbers.stage_of_64 : numbers.stage + numbers.row * tile_m;
  return numbers.start + small_m_ns(work, splits, gpu, numbers.round + stored, stage) +
         (splits > 1 ? numbers.sharing + numbers.share * splits : 0.0);
}

// ---- passes ----

// Bytes of the operands that have scales, as codes and as elements of `element_bytes` each, which a pass makes of them.
inline double pass_bytes(const Problem& problem, double element_bytes) {
  const auto of = [&](const Operand& operand, int64_t rows) {
    const double code_bytes = 1.0 / elements_per_byte(operand.dtype);
    return static_cast<double>(rows) * static_cast<double>(problem.k) * (code_bytes + element_bytes);
  };
  return (problem.is_weight_only() ? 0.0 : of(problem.a, problem.m)) + of(problem.b, problem.n);
}

// What a pass writes the next kernel partly finds in L2: fitted, as what follows, to products of 64 to 4096 rows on an
// H200, and less by an H100's memory.
inline double pass_ns(double bytes, double h200_bytes_per_ns, const Gpu& gpu) {
  return bytes / (h200_bytes_per_ns * (is_like_h100(gpu) ? 0.78 : 1.0));
}

// All that has scales as bfloat16, and the product of that; `dense_ns` is what a dense product takes. Where an operand
// has codes of e4m3 the portable kernels follow, which mostly leave at once.
inline double prepared_ns(const Problem& problem, double dense_ns, const Gpu& gpu) {
  const double launches = problem.is_weight_only() ? 500.0 : has_codes_of_e4m3(problem) ? 3400.0 : 1550.0;
  return 0.97 * dense_ns + launches + pass_ns(pass_bytes(problem, 2), 4800, gpu);
}

// Against kernels that decode a weight of mxfp8 while the tensor core multiplies, large products of prepared operands
// take longer than the costs of both say: 4,096 rows by five weights 1.06 to 1.10 times as long (batch_invariant.csv).
// Smaller ones do not, nor do 8,192 rows, of which a product was measured.
constexpr double kLargeProducts = 4e10, kMoreOfLargePrepared = 1.08;
constexpr int64_t kMostRowsOfDecoded = 4096;
inline double prepared_beside_decoded_ns(const Problem& problem, double dense_ns, const Gpu& gpu) {
  const bool is_slower =
      problem.b.dtype == DType::kFloat8E4M3 && problem.m <= kMostRowsOfDecoded && problem.products() > kLargeProducts;
  return (is_slower ? kMoreOfLargePrepared : 1.0) * prepared_ns(problem, dense_ns, gpu);
}

// mxfp4 as int8 or, where it does not fit that, as e5m2.
inline double narrow_ns(const Problem& problem, Operands operands, double bound_ns, const Gpu& gpu) {
  const bool is_int8 = operands == Operands::kInt8;
  return (is_int8 ? 0.907 : 0.764) * bound_ns + (is_int8 ? 9130.0 : 11670.0) +
         pass_ns(pass_bytes(problem, 1), is_int8 ? 3020 : 2900, gpu);
}

// Operands with e8m0 scales as rows of e4m3 with a power of two each (core/fold.h): the pass at the rate that an H200
// has from 4096 k on, 3.6 bytes a nanosecond of codes of e4m3 and 3.0 to 3.2 of e2m1 (at 045ccbf, by torch's profiler).
inline double folded_ns(const Problem& problem, double product_ns, const Gpu& gpu) {
  const double rate = problem.b.dtype == DType::kFloat8E4M3 ? 3600 : 3100;
  return 0.97 * product_ns + 2800.0 + pass_ns(pass_bytes(problem, 1), rate, gpu);
}

// What goes before a kernel that folds the weight in its main loop: the fold of `a`, and the factors of the weight's
// blocks. Fitted together with the costs of those kernels (tables.h).
inline double fold_with_factors_ns(const Problem& problem) {
  Problem of_a = problem;
  of_a.n = 0;
  const double blocks = static_cast<double>(problem.n) * static_cast<double>(problem.k) / 32;
  return 7621.0 + pass_bytes(of_a, 1) / 4839 + blocks / (problem.b.dtype == DType::kFloat8E4M3 ? 366 : 591);
}

// ---- kernels whose tiles CTAs share: a weight that is decoded in the main loop, and few rows of codes ----

// nvfp4 has twice mxfp4's scales.
constexpr double kMoreOfNvfp4 = 1.04;

// The numbers of its configs were fitted to few products below 10 us. Of the smallest one a tile takes so long.
constexpr double kLeastSharedNs = 8000.0;

// A weight whose codes the main loop decodes or folds, under an `a` prepared before: of 16 bits, or of a fold's 8. Or
// codes with float32 scales, by kernels whose tiles CTAs share.
inline double shared_tiles_ns(const KernelConfig& config, const Problem& problem, int sm_count) {
  const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
  const double k = static_cast<double>(problem.k);
  const double bytes = config.tile.element_bytes * m * k + bits_of_b(config.tile) / 8.0 * n * k + 2 * m * n;
  const bool is_nvfp4 = problem.b.scale.type == ScaleType::kE4M3;
  const double compute = share_tiles(config, problem, sm_count).ns * (is_nvfp4 ? kMoreOfNvfp4 : 1.0);
  const double ns = config.cost.start + std::max(compute, bytes / config.cost.memory_bytes);
  return std::max(ns, kLeastSharedNs) + store_ns(config, problem, sm_count);
}

// And what an `a` with scales takes to become bfloat16. Where an operand has codes of e4m3 other kernels follow, which
// mostly leave at once; a weight of mxfp8 has that in its numbers.
inline double prepare_a_ns(const Problem& problem, const Gpu& gpu) {
  if (problem.is_weight_only()) return 0;
  Problem of_a = problem;
  of_a.n = 0;
  const bool is_looked_at = problem.a.dtype == DType::kFloat8E4M3 && problem.b.dtype != DType::kFloat8E4M3;
  return 3500.0 + (is_looked_at ? 2000.0 : 0.0) + pass_ns(pass_bytes(of_a, 2), 3500, gpu);
}

}  // namespace tileon::sm90
