// Which config of Hopper's kernels takes a product with scales: pure functions, compiled by any C++ compiler. What each
// way is expected to take: scaled_cost.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/cost_numbers.h"
#include "cuda/sm90/heuristics/direct_weight.h"
#include "cuda/sm90/heuristics/scaled_cost.h"
#include "cuda/sm90/heuristics/select.h"
#include "cuda/sm90/heuristics/small_m.h"

namespace tileon::sm90 {

// Fewer rows of either operand are faster where the weight was prepared before.
constexpr int64_t kPreparePaysFromRows = 65;

// So many rows of a are faster as few rows. Where b is prepared already they are fewer, unless that has four times the
// codes' bytes, which then take longer to read.
constexpr int64_t max_small_m(const Problem& problem) {
  const PreparedWeight& weight = problem.prepared_b;
  const bool is_wide = weight.form == PreparedForm::kBFloat16 && problem.b.dtype == DType::kFloat4E2M1;
  const bool is_read = weight.data != nullptr && problem.n >= kPreparePaysFromRows;
  return !is_read || is_wide ? kMaxSmallM : kPreparePaysFromRows - 1;
}

inline bool is_small_m(const Problem& problem, const Gpu& gpu) {
  return problem.k > 0 && problem.m <= max_small_m(problem) && why_not_small_m(problem, gpu) == nullptr;
}

// Of a weight alone scaled the tile that all rows fit. Of two operands, each CTA of which decodes its rows of `a`,
// smaller tiles can be faster.
inline int choose_small_m(const Problem& problem, const Gpu& gpu) {
  return cheapest_config(
      kBlockScaledConfigs, [](const KernelConfig& config) { return config.operands == Operands::kCodes; },
      [&](const KernelConfig& config) {
        const int tile_m = config.tile.tile_m;
        return problem.is_weight_only() ? small_m_cost(problem.m, tile_m) : few_rows_ns(problem, tile_m, gpu);
      });
}

// In shorter sums few products make up for what another loses (docs/block_scaled_on_hopper.md).
constexpr int64_t kFloat8MinK = 1024;

constexpr bool may_be_float8(const Problem& problem) { return problem.fast_accum && problem.k >= kFloat8MinK; }

// Whether the library, or its tuner, may choose configs of these operands for the problem, by their accuracy.
inline bool may_choose(Operands operands, const Problem& problem) {
  if (is_folded_weight(operands)) return problem.may_be_folded();
  if (problem.k == 0 || (operands == Operands::kFp8Rows && !problem.fast_accum)) return false;
  return operands != Operands::kE5M2 || may_be_float8(problem);
}

// Products (m * n * k) from which int8 saves more than looking at the scales costs.
constexpr double kInt8PaysFrom = 1472.0 * 1472.0 * 1472.0;

// The cheapest config whose operands are prepared so.
inline int choose_prepared(Operands operands, const Problem& problem, const Gpu& gpu) {
  const Problem prepared = prepared_problem(problem, nullptr, nullptr);
  const auto is_wanted = [&](const KernelConfig& config) { return config.operands == operands; };
  if (!is_by_encoding(operands)) {
    const DenseCosts costs = costs_with_activation(operands, prepared, gpu);
    return cheapest_config(kBlockScaledConfigs, is_wanted,
                           [&](const KernelConfig& config) { return costs.ns[config.like]; });
  }
  const Work work(prepared, 1);
  return cheapest_config(kBlockScaledConfigs, is_wanted, [&](const KernelConfig& config) {
    return largest_bound_ns(config, prepared, work, gpu.sm_count) + store_ns(config, prepared, gpu.sm_count);
  });
}

// What a config of codes with float32 scales is expected to take.
inline double scaled_codes_ns(const KernelConfig& config, const Problem& problem, const Work& work, const Gpu& gpu) {
  if (shares_tiles(config)) return shared_tiles_ns(config, problem, gpu.sm_count);
  return largest_bound_ns(config, problem, work, gpu.sm_count) + store_ns(config, problem, gpu.sm_count);
}

// The cheapest config for codes with these float32 scales. With fast_accum promoted configs are weighed, too, without a
// margin: of 80 recorded products (scaled_operands.csv, dd4f9f8) they took 0.88 to 0.99 of the fast ones' time in all 6
// that were expected to take less, were it by 0.1 %, and 1.04 to 1.06 in all 6 that were expected to take 1 % more.
inline int choose_scaled_codes(const Problem& problem, const Gpu& gpu) {
  const Operands operands = scaled_codes_of(problem);
  if (why_not_scaled_codes(operands, problem, gpu) != nullptr) return -1;
  const Work work(problem, 1);
  const bool weighs_promoted = operands == Operands::kFp8Rows;
  const auto is_wanted = [&](const KernelConfig& config) {
    return config.operands == operands || (weighs_promoted && config.operands == Operands::kFp8RowsPromoted);
  };
  return cheapest_config(kBlockScaledConfigs, is_wanted,
                         [&](const KernelConfig& config) { return scaled_codes_ns(config, problem, work, gpu); });
}

// ---- few rows by a weight that alone has scales ----

// -1 where the kernels that read it straight into registers cannot take it, or others are faster.
inline int choose_direct_weight(const Problem& problem, const Gpu& gpu) {
  if (why_not_direct_weight(problem, gpu) != nullptr) return -1;
  const auto is_wanted = [&](const KernelConfig& config) {
    return config.operands == Operands::kDirectWeight && may_be_fastest_direct(config.tile, problem, gpu);
  };
  const auto ns = [&](const KernelConfig& config) { return direct_ns(config.tile, problem, gpu); };
  const int best = cheapest_config(kBlockScaledConfigs, is_wanted, ns);
  if (best < 0) return -1;
  const KernelConfig& direct = kBlockScaledConfigs[best];
  const bool is_one_round = direct_rounds(direct.tile, problem, gpu) == 1;
  return are_few_rows_faster(problem, ns(direct), is_one_round, gpu) ? -1 : best;
}

// ---- a weight with float32 scales alone ----

// The kernels for few rows are asked up to so many.
constexpr int64_t kMaxFewRowsOfWeight = 256;

// And of a weight of 8 bits under float32 scales that no other kernel of Hopper's reads up to so many, or at any number
// of rows where scales change along k: the portable kernel of those multiplies in float32, which takes two to three
// times as long.
constexpr int64_t kMaxRowsOfCodes = 384;

// Of those that the main loop can convert no kernel but that for few rows is asked up to so many. Of scales that change
// along k no product of 17 to 32 rows was measured by both.
constexpr int64_t few_rows_of_codes(Operands operands) { return operands == Operands::kWeightCodes ? 16 : 32; }

// The cheaper of the kernels for few rows and of those that convert a weight's codes in the main loop.
inline int choose_weight_codes(Operands operands, const Problem& problem, bool takes_few, const Gpu& gpu) {
  const auto ns = [&](const KernelConfig& config) { return shared_tiles_ns(config, problem, gpu.sm_count); };
  const int best =
      cheapest_config(kBlockScaledConfigs, [&](const KernelConfig& config) { return config.operands == operands; }, ns);
  if (!takes_few || problem.m > kMaxFewRowsOfWeight) return best;
  const int few = choose_small_m(problem, gpu);
  const double few_ns = few_rows_ns(problem, kBlockScaledConfigs[few].tile.tile_m, gpu);
  return problem.m <= few_rows_of_codes(operands) || few_ns < ns(kBlockScaledConfigs[best]) ? few : best;
}

inline int choose_float32_weight(const Problem& problem, const Gpu& gpu) {
  const bool takes_few = problem.k > 0 && why_not_small_m(problem, gpu) == nullptr;
  const bool is_constant = is_constant_along_k(problem.b, problem.k);
  const Operands operands = is_constant ? Operands::kWeightCodes : Operands::kWeightBlocks;
  if (why_not_weight_codes(operands, problem, gpu) == nullptr)
    return choose_weight_codes(operands, problem, takes_few, gpu);
  return takes_few && (problem.m <= kMaxRowsOfCodes || !is_constant) ? choose_small_m(problem, gpu) : -1;
}

// ---- a weight with scales of a byte a block, and 16 bits or codes with such scales ----

// Up to so many rows the kernels for few rows have one tile, and are fastest. Of a weight alone scaled they are only up
// to 32; above that the kernels that decode in the main loop are weighed, too. Few rows are weighed up to more, of
// small weights.
constexpr int64_t kFewRowsOfOneTile = kSmallMMaxTileM;
constexpr int64_t kAlwaysFewRowsOfWeight = 32;
constexpr int64_t kMaxFewRows = 384;
constexpr int kLeastOfSeveral = 32;  // rows of a tile of a weight alone scaled, where there are several

// Up to how many rows the kernels for few rows are weighed. Of two operands, whose packed scales they read as they lie,
// they can be fastest for any number, beside few rows of `b`; but not where results may have to be batch invariant: for
// these kernels that is never so.
inline int64_t max_few_rows(const Problem& problem, bool decodes) {
  const bool any = problem.is_block_scaled() && problem.may_slice_k && lie_in_blocks(problem.a.scale) &&
                   lie_in_blocks(problem.b.scale);
  if (any) return std::numeric_limits<int64_t>::max();
  return decodes ? kMaxFewRows : kMaxSmallM;
}

// Multiplications below which nothing is folded: the prices were fitted to larger products, and what two launches take
// is most of such a one's time. Nor with a shorter k, where the fold's passes take longer than the products.
constexpr double kFoldPaysFrom = 4e7;
constexpr int64_t kFoldPaysFromK = 160;

// Whether a fold is weighed at all.
inline bool may_fold_pay(const Problem& problem) {
  return problem.may_be_folded() && problem.m > kFewRowsOfOneTile && problem.k >= kFoldPaysFromK &&
         problem.products() >= kFoldPaysFrom;
}

// A fold rounds: a kernel that folds the weight must be expected to take so much less.
constexpr double kFoldedWeightFactor = 1.03;

struct Cheapest {
  int config;  // -1: none
  double ns;
};

// The cheapest of the kernels for few rows, of those that decode or fold the weight in the main loop, and of those that
// multiply prepared operands, which become `prepared` then.
inline Cheapest cheapest_of_blocks(const Problem& problem, Operands prepared, const Gpu& gpu) {
  const bool is_fp4 = problem.b.dtype == DType::kFloat4E2M1;
  const Operands decoded = is_fp4 ? Operands::kFp4Weight : Operands::kMxfp8Weight;
  const Operands folded = is_fp4 ? Operands::kFoldedE2M1 : Operands::kFoldedE4M3;
  const bool folds = may_fold_pay(problem) && why_not_folded_weight(folded, problem, gpu) == nullptr;
  const bool decodes = why_not_block_weight(decoded, problem, gpu) == nullptr;
  const bool takes_few = problem.m <= max_few_rows(problem, decodes) && why_not_small_m(problem, gpu) == nullptr;
  const int least_tile = problem.is_weight_only() ? kLeastOfSeveral : 0;
  // Beside a weight alone preparing was measured for more rows than one tile's alone.
  const bool is_one_tile = problem.is_weight_only() && takes_few && problem.m <= kFewRowsOfOneTile;
  const bool prepares = !is_one_tile && why_not_prepared(prepared, problem, gpu) == nullptr;
  const Problem inner = prepared_problem(problem, nullptr, nullptr);
  const Work work(inner, 1);
  std::optional<DenseCosts> costs;  // of operands that TMA reads
  if (prepares && prepared == Operands::kBFloat16)
    costs.emplace(costs_with_activation(Operands::kBFloat16, inner, gpu));
  const double a_ns = prepare_a_ns(problem, gpu);
  const auto runs = [&](const KernelConfig& config) {
    if (config.operands == Operands::kCodes) return takes_few && config.tile.tile_m >= least_tile;
    return (config.operands == decoded && decodes) || (config.operands == folded && folds) ||
           (config.operands == prepared && prepares);
  };
  const auto ns = [&](const KernelConfig& config) {
    if (config.operands == Operands::kCodes) return few_rows_ns(problem, config.tile.tile_m, gpu);
    if (config.operands == decoded) return shared_tiles_ns(config, problem, gpu.sm_count) + a_ns;
    if (config.operands == folded)
      return kFoldedWeightFactor * (shared_tiles_ns(config, problem, gpu.sm_count) + fold_with_factors_ns(problem));
    if (prepared == Operands::kBFloat16) return prepared_beside_decoded_ns(problem, costs->ns[config.like], gpu);
    return narrow_ns(problem, prepared, largest_bound_ns(config, inner, work, gpu.sm_count), gpu) +
           store_ns(config, inner, gpu.sm_count);
  };
  const int best = cheapest_config(kBlockScaledConfigs, runs, ns);
  return {best, best < 0 ? 0 : ns(kBlockScaledConfigs[best])};
}

// What the operands are prepared as: mxfp4 as narrow as may be.
inline Operands prepared_as(const Problem& problem) {
  if (!problem.is_mxfp4() || problem.products() < kInt8PaysFrom || problem.k > kInt8MaxK) return Operands::kBFloat16;
  return may_be_float8(problem) ? Operands::kE5M2 : Operands::kInt8;
}

// Of 16 bits and such a weight.
inline int choose_block_weight(const Problem& problem, const Gpu& gpu) {
  if (problem.k == 0) return -1;
  const bool takes_few = why_not_small_m(problem, gpu) == nullptr;
  if (takes_few && problem.m <= kAlwaysFewRowsOfWeight) return choose_small_m(problem, gpu);
  return cheapest_of_blocks(problem, Operands::kBFloat16, gpu).config;
}

// Of two operands with scales, the second of which is not prepared yet.
inline Cheapest cheapest_of_two(const Problem& problem, const Gpu& gpu) {
  return problem.k == 0 ? Cheapest{-1, 0} : cheapest_of_blocks(problem, prepared_as(problem), gpu);
}

// And of two of which it is.
inline int choose_prepared_weight(const Problem& problem, const Gpu& gpu) {
  if (is_small_m(problem, gpu)) return choose_small_m(problem, gpu);
  if (problem.k == 0 || problem.m < kPreparePaysFromRows || problem.n < kPreparePaysFromRows) return -1;
  const bool by_encoding = problem.prepared_b.form == PreparedForm::kInt8 && problem.k <= kInt8MaxK;
  const Operands narrow = may_be_float8(problem) ? Operands::kE5M2 : Operands::kInt8;
  const Operands operands = by_encoding ? narrow : Operands::kBFloat16;
  return why_not_prepared(operands, problem, gpu) == nullptr ? choose_prepared(operands, problem, gpu) : -1;
}

// As weigh_dense. Of two operands with block scales the time is known, and held against the portable kernels'.
inline Choice weigh_block_scaled(const Problem& problem, const Gpu& gpu) {
  const bool has_float32_scales = problem.b.scale.type == ScaleType::kFloat32;
  if (problem.is_weight_only()) {
    const int direct = choose_direct_weight(problem, gpu);
    if (direct >= 0) return {direct};
    return {has_float32_scales ? choose_float32_weight(problem, gpu) : choose_block_weight(problem, gpu)};
  }
  if (has_float32_scales || !problem.is_block_scaled()) return {choose_scaled_codes(problem, gpu)};
  if (problem.prepared_b.data != nullptr) return {choose_prepared_weight(problem, gpu)};
  const Cheapest best = cheapest_of_two(problem, gpu);
  return best.config < 0 ? Choice{} : Choice{best.config, best.ns, best.ns};
}
inline int choose_block_scaled(const Problem& problem, const Gpu& gpu) {
  return weigh_block_scaled(problem, gpu).config;
}

// ---- the fold ----

// 1 where two operands with e8m0 scales are expected to be multiplied sooner as rows of e4m3 than in any other way
// here; else 0. Where fast_accum allows it, and Hopper's kernels multiply them then.
inline int fold_pays(const Problem& problem, const Gpu& gpu) {
  if (gpu.capability != 90 || !may_fold_pay(problem)) return 0;
  const Cheapest other = cheapest_of_two(problem, gpu);
  if (other.config < 0) return 1;
  const Matrix rows{nullptr, problem.k, 1, 0};
  Problem folded = prepared_problem(problem, nullptr, nullptr);
  folded.a = {rows, DType::kFloat8E4M3, {}};
  folded.b = {rows, DType::kFloat8E4M3, {}};
  const Work work(folded, 1);
  double product_ns = std::numeric_limits<double>::max();
  for (const KernelConfig& config : kBlockScaledConfigs)
    if (config.operands == Operands::kFp8RowsPromoted)
      product_ns = std::min(product_ns, scaled_codes_ns(config, folded, work, gpu));
  return folded_ns(problem, product_ns, gpu) < other.ns ? 1 : 0;
}

}  // namespace tileon::sm90
