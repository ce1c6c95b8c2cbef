// What the Hopper kernels take, and which config takes a product without scales: pure functions, compiled by any C++
// compiler. Of products with scales: select_scaled.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <vector>

#include "cuda/common/kernel_choice.h"
#include "cuda/common/narrow.h"
#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/cost_numbers.h"
#include "cuda/sm90/heuristics/direct_weight.h"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/heuristics/streamed.h"
#include "cuda/sm90/heuristics/tf32.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// ---- what the kernels take ----

// Of sizes, whatever the operands are.
inline const char* why_not_sizes(const Problem& problem, const Gpu& gpu) {
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  constexpr int64_t limit = int64_t{1} << 31;  // of TMA's coordinates, and of the number of tiles
  constexpr int64_t margin = 1 << 16;          // what whole tiles and blocks of k reach past the end, and more
  if (problem.m >= limit - margin || problem.n >= limit - margin || problem.k >= limit - margin ||
      problem.batch >= limit)
    return "a size is near 2^31 or above it";
  const int64_t tiles = ((problem.m + 7) / 8) * ((problem.n + 31) / 32);  // no config has smaller ones
  if (tiles >= limit / 8 / problem.batch) return "there are too many tiles";
  return nullptr;
}

inline const char* why_not_dense(const Problem& problem, const Gpu& gpu) {
  if (problem.a.dtype != DType::kFloat16 && problem.a.dtype != DType::kBFloat16)
    return "it does not take operands of this dtype";
  if (const char* reason = why_not_sizes(problem, gpu); reason != nullptr) return reason;
  const TmaAccesses access(problem, kElementBytes);
  return why_not_access(access.a.readable, access.b.readable);
}

// wgmma reads fp8 along k alone.
inline const char* why_not_fp8(const Problem& problem, const Gpu& gpu) {
  if (!is_float8(problem.a.dtype)) return "it does not take operands of this dtype";
  const TmaAccesses access(problem, 1);
  const char* reason = why_not_access(access.a.reads_along_k(), access.b.reads_along_k());
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

inline const char* why_not_bf16x6(const Problem& problem, const Gpu& gpu) {
  if (problem.a.dtype != DType::kFloat32 || problem.allow_tf32) return "it does not take operands of this dtype";
  return why_not_dense(bf16x3_problem(problem, nullptr), gpu);
}

inline const char* why_not_tf32(const TileConfig& tile, const Problem& problem, const Gpu& gpu) {
  if (!is_tf32(problem)) return "it does not take operands of this dtype";
  const TmaAccesses access(problem, kTf32Bytes);
  const char* reason = why_not_access(access.a.readable && takes_a(tile, access.a.major),
                                      access.b.readable && takes_b(tile, access.b.major));
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

// Of a product whose weight alone is prepared.
inline const char* why_not_prepared_weight(Operands operands, const Problem& problem) {
  if (operands != Operands::kBFloat16) return "it does not take `a` of this dtype";
  if (const char* reason = why_not_weight_only(problem, DType::kBFloat16); reason != nullptr) return reason;
  if (const char* reason = why_not_global_scale(problem); reason != nullptr) return reason;
  const TmaAccess a = tma_access(problem.a, 1, problem.m, problem.k, kElementBytes);
  return why_not_access(a.reads_along_k(), !wants_copy_of_codes(problem.b, problem.n, problem));
}

// Of codes with float32 scales, which are multiplied where they lie.
inline const char* why_not_scaled_codes(Operands operands, const Problem& problem, const Gpu& gpu) {
  const DType wanted = operands == Operands::kInt8Rows ? DType::kInt8 : DType::kFloat8E4M3;
  if (problem.a.dtype != wanted || problem.b.dtype != wanted) return "it does not take operands of these dtypes";
  const auto has_scales = [](const Scale& scale) { return scale.vec != 0 && scale.type == ScaleType::kFloat32; };
  if (!has_scales(problem.a.scale) || !has_scales(problem.b.scale)) return "it takes two operands with float32 scales";
  const ScaleStrides& strides = problem.b.scale.strides;
  const bool is_constant = is_constant_along_k(problem.a, problem.k) && is_constant_along_k(problem.b, problem.k);
  if (operands != Operands::kFp8Blocks && !is_constant) return "it takes float32 scales that do not change along k";
  if (operands == Operands::kFp8Blocks && (strides.row != 0 || strides.quarter != 0))
    return "it takes scales of `b` that 128 rows share";
  if (problem.k == 0) return "k is 0";
  if (operands == Operands::kInt8Rows && problem.k > kInt8RowsMaxK) return "k is too long for sums in int32";
  if (const char* reason = why_not_global_scale(problem); reason != nullptr) return reason;
  if (is_float8(problem.out_dtype)) return "it does not round to fp8";
  const TmaAccesses access(problem, 1);
  const char* reason = why_not_access(access.a.reads_along_k(), access.b.reads_along_k());
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

// Of an `a` with scales, which is prepared as bfloat16 for a weight that is decoded in the main loop.
inline const char* why_not_prepared_a(const Problem& problem) {
  if (problem.k > kPrepareMaxK) return "k is too long";
  if (row_groups(problem.m) * segments_of_a(problem) >= int64_t{1} << 31) return "its operands are too large";
  const bool has_words = has_codes_of_e4m3(problem);
  return has_words && row_groups(problem.m) > kMaxPrepareWords ? "it has too many rows of `a`" : nullptr;
}

// Of a weight with a scale of a byte for each block, which is decoded in the main loop, and 16 bits or codes with such
// scales. Codes of two operands that cannot be read well are copied (wants_copy_of_codes).
inline const char* why_not_block_weight(Operands operands, const Problem& problem, const Gpu& gpu) {
  const bool is_fp4 = operands == Operands::kFp4Weight;
  if (!problem.is_scaled() || problem.b.dtype != (is_fp4 ? DType::kFloat4E2M1 : DType::kFloat8E4M3))
    return is_fp4 ? "it takes a weight of mxfp4 or nvfp4" : "it takes a weight of mxfp8";
  const bool is_weight_only = problem.is_weight_only();
  const DType wide = is_fp4 && problem.a.dtype == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
  const char* reason = is_weight_only ? why_not_weight_only(problem, wide) : why_not_two_scaled(problem);
  if (reason != nullptr) return reason;
  if (!lie_in_blocks(problem.b.scale)) return "it takes packed scales";
  if (problem.k == 0) return "k is 0";
  if (!is_weight_only && (reason = why_not_prepared_a(problem)) != nullptr) return reason;
  const bool reads_a = !is_weight_only || tma_access(problem.a, 1, problem.m, problem.k, kElementBytes).reads_along_k();
  const bool copies_b = !is_weight_only && wants_copy_of_codes(problem.b, problem.n, problem);
  reason = why_not_access(reads_a, copies_b || tma_reads_codes(problem.b, problem.n, problem.k));
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

// Of two operands with e8m0 scales, whose folds are multiplied.
inline const char* why_not_folded_weight(Operands operands, const Problem& problem, const Gpu& gpu) {
  const bool is_fp4 = operands == Operands::kFoldedE2M1;
  if (!problem.is_block_scaled() || problem.b.scale.type != ScaleType::kE8M0)
    return "it takes e8m0 scales of both operands";
  if (problem.b.dtype != (is_fp4 ? DType::kFloat4E2M1 : DType::kFloat8E4M3))
    return is_fp4 ? "it takes a weight of mxfp4" : "it takes a weight of mxfp8";
  if (problem.prepared_b.data != nullptr) return "it takes no prepared weight";
  if (const char* reason = why_not_global_scale(problem); reason != nullptr) return reason;
  if (problem.k == 0) return "k is 0";
  if (is_float8(problem.out_dtype)) return "it does not round to fp8";
  const bool copies_b = wants_copy_of_codes(problem.b, problem.n, problem);
  const char* reason = why_not_access(true, copies_b || tma_reads_codes(problem.b, problem.n, problem.k));
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

// Of 16 bits and a weight of 8 bits with float32 scales, which change along k or do not.
inline const char* why_not_weight_codes(Operands operands, const Problem& problem, const Gpu& gpu) {
  if (!problem.is_weight_only() || problem.b.scale.type != ScaleType::kFloat32)
    return "it takes a weight alone with float32 scales";
  if (const char* reason = why_not_small_m_weight(problem); reason != nullptr) return reason;
  if (operands == Operands::kWeightCodes && !is_constant_along_k(problem.b, problem.k))
    return "it takes float32 scales that do not change along k";
  if (operands == Operands::kWeightBlocks && problem.b.dtype != DType::kFloat8E4M3) return "it takes codes of e4m3";
  if (const char* reason = why_not_global_scale(problem); reason != nullptr) return reason;
  if (problem.k == 0) return "k is 0";
  const TmaAccess a = tma_access(problem.a, 1, problem.m, problem.k, kElementBytes);
  const char* reason = why_not_access(a.reads_along_k(), tma_reads_codes(problem.b, problem.n, problem.k));
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

// Of block-scaled products whose operands are prepared.
inline const char* why_not_prepared(Operands operands, const Problem& problem, const Gpu& gpu) {
  const char* reason =
      problem.is_weight_only() ? why_not_prepared_weight(operands, problem) : why_not_block_scaled(problem);
  if (reason != nullptr) return reason;
  if (is_by_encoding(operands) && !problem.is_mxfp4()) return "int8 and e5m2 hold mxfp4 alone";
  if (is_by_encoding(operands) && problem.k > kInt8MaxK) return "k is too long for sums in int32";
  if (problem.k > kPrepareMaxK) return "k is too long";
  if (prepare_ctas(problem, segments_of(problem)) >= int64_t{1} << 31) return "its operands are too large";
  return why_not_dense(prepared_problem(problem, nullptr, nullptr), gpu);
}

// Why configs of these operands cannot run the problem on this GPU; null where all of them can.
inline const char* why_not(Operands operands, const Problem& problem, const Gpu& gpu) {
  switch (operands) {
    case Operands::k16Bits:
      return why_not_dense(problem, gpu);
    case Operands::kFp8:
    case Operands::kFp8Promoted:
      return why_not_fp8(problem, gpu);
    case Operands::kBf16x3:
      return why_not_bf16x6(problem, gpu);
    case Operands::kCodes:
      return why_not_small_m(problem, gpu);
    case Operands::kFp8Rows:
    case Operands::kFp8RowsPromoted:
    case Operands::kInt8Rows:
    case Operands::kFp8Blocks:
      return why_not_scaled_codes(operands, problem, gpu);
    case Operands::kFp4Weight:
    case Operands::kMxfp8Weight:
      return why_not_block_weight(operands, problem, gpu);
    case Operands::kWeightCodes:
    case Operands::kWeightBlocks:
      return why_not_weight_codes(operands, problem, gpu);
    case Operands::kFoldedE4M3:
    case Operands::kFoldedE2M1:
      return why_not_folded_weight(operands, problem, gpu);
    case Operands::kDirectWeight:
      return why_not_direct_weight(problem, gpu);
    default:
      return why_not_prepared(operands, problem, gpu);
  }
}

// ---- the choice ----

using DenseCosts = Costs<float, kDenseConfigCount>;

// What every dense config takes, any activation counted; and rows that TMA cannot write of kernels that are crowded by
// an AccumulatorScale, which have no copies of chunks and finish few sums at a time, or stage them.
inline DenseCosts costs_with_activation(Operands operands, const Problem& problem, const Gpu& gpu) {
  DenseCosts costs = dense_costs(operands, problem, gpu);
  const bool is_cheap = is_cheap_epilogue(problem);
  if (is_cheap && (stored_sums(operands).unscaled || writes_by_tma(operands, problem))) return costs;
  for (int i = 0; i < kDenseConfigCount; ++i)
    if (!is_cheap || sums_of_thread(kDenseConfigs[i].tile) >= kCrowdedSums)
      costs.ns[i] += static_cast<float>(any_activation_ns(kDenseConfigs[i], operands, problem, costs.waves[i]));
  return costs;
}

// A dense config, and what is expected of it in nanoseconds: the parts of Costs.
struct Candidate {
  const char* name;
  double ns, start, compute, memory, delivery, l2, waves;
};

// All of them, in the order of the table; none where the kernels cannot run the problem.
inline std::vector<Candidate> explain(const Problem& problem, const Gpu& gpu) {
  std::vector<Candidate> candidates;
  if (why_not_dense(problem, gpu) != nullptr) return candidates;
  const DenseCosts costs = costs_with_activation(Operands::k16Bits, problem, gpu);
  for (int i = 0; i < kDenseConfigCount; ++i)
    candidates.push_back({kDenseConfigs[i].name, costs.ns[i], costs.start[i], costs.compute[i], costs.memory[i],
                          costs.delivery[i], costs.l2[i], costs.waves[i]});
  return candidates;
}

constexpr bool kDenseMeasured = std::all_of(std::begin(kDenseConfigs), std::end(kDenseConfigs),
                                            [](const KernelConfig& config) { return config.measured; });

inline int cheapest_dense(const DenseCosts& costs) {
  if (kDenseMeasured) return place_of_least(costs.ns);
  return cheapest_config(
      kDenseConfigs, [](const KernelConfig&) { return true; },
      [&](const KernelConfig& config) { return costs.ns[&config - kDenseConfigs]; });
}

// As `explain`, those of kStreamedConfigs that would share tiles and are weighed.
inline std::vector<Candidate> explain_streamed(const Problem& problem, const Gpu& gpu) {
  std::vector<Candidate> candidates;
  if (why_not_dense(problem, gpu) != nullptr || !may_stream(problem, gpu)) return candidates;
  const DenseCosts costs = costs_with_activation(Operands::k16Bits, problem, gpu);
  if (costs.ns[cheapest_dense(costs)] < kLeastStreamedNs) return candidates;
  for (const KernelConfig& config : kStreamedConfigs)
    if (const StreamedCost of(config, costs, problem, gpu);
        config.measured && of.ns < std::numeric_limits<float>::infinity())
      candidates.push_back({config.name, of.ns, of.start, of.compute, of.memory, of.delivery, of.l2, of.waves});
  return candidates;
}

// A choice whose expected time is held against the portable kernels' where it is so short that those can be faster, or
// where they may be for another reason.
constexpr double kSmallProductNs = 14000.0;
inline Choice small_or_certain(int config, double ns, bool is_certain = true) {
  return {config, ns, ns < kSmallProductNs || !is_certain ? ns : -1};
}

// The config that is expected to be fastest; none where none can run the problem, and where the portable kernels for
// few rows or columns should be faster. The numbers of kStreamedConfigs, which are weighed if `with_streamed`, stand
// behind those of kDenseConfigs.
inline Choice weigh_16_bits(const Problem& problem, const Gpu& gpu, bool with_streamed) {
  if (why_not_dense(problem, gpu) != nullptr) return {};
  const DenseCosts costs = costs_with_activation(Operands::k16Bits, problem, gpu);
  int best = cheapest_dense(costs);
  float ns = costs.ns[best];
  if (narrow_pays(problem, gpu, ns / kNarrowMargin)) return {};
  const int streamed = with_streamed ? find_streamed(costs, problem, gpu, best, ns) : -1;
  if (streamed >= 0) best = kDenseConfigCount + streamed;
  // Rows that TMA cannot write take long in all kernels, and the products of a short k hide little of it.
  return small_or_certain(best, ns, writes_by_tma(Operands::k16Bits, problem));
}
inline Choice weigh_dense(const Problem& problem, const Gpu& gpu) { return weigh_16_bits(problem, gpu, true); }
inline int choose_dense(const Problem& problem, const Gpu& gpu) { return weigh_16_bits(problem, gpu, false).config; }

inline double fp8_ns(const KernelConfig& config, const Problem& problem, const Work& work, const Gpu& gpu) {
  return largest_bound_ns(config, problem, work, gpu.sm_count) + store_ns(config, problem, gpu.sm_count);
}

// As weigh_dense. With fast_accum promoted configs are not weighed: in the 96 products of fp8.csv (H200, 988235d), all
// squares, they took 1.01 to 1.13 times as long; and their costs, mostly from an H100, do not compare with the fast
// ones', from an H200.
inline Choice weigh_fp8(const Problem& problem, const Gpu& gpu) {
  if (why_not_fp8(problem, gpu) != nullptr) return {};
  const Work work(problem, 1);
  const Operands wanted = problem.fast_accum ? Operands::kFp8 : Operands::kFp8Promoted;
  const auto ns = [&](const KernelConfig& config) { return fp8_ns(config, problem, work, gpu); };
  const int best =
      cheapest_config(kFp8Configs, [&](const KernelConfig& config) { return config.operands == wanted; }, ns);
  const double expected = ns(kFp8Configs[best]);
  return narrow_pays(problem, gpu, expected / kNarrowMargin) ? Choice{} : small_or_certain(best, expected);
}
inline int choose_fp8(const Problem& problem, const Gpu& gpu) { return weigh_fp8(problem, gpu).config; }

// What a config takes with the kernels that split the operands.
inline double bf16x6_ns(const KernelConfig& config, const Problem& problem, const SplitProduct& product,
                        const Gpu& gpu) {
  const double fitted = product.ns(config, gpu.sm_count) + split_ns(problem);
  const double all = std::max(fitted, std::min(fitted, kSmallBf16x6Ns) + kMoreOfSmallBf16x6Ns);
  return all * (is_like_h100(gpu) ? kBf16x6OfH100 : 1);
}

// The config that is expected to be fastest; none where none can run the problem. There are portable kernels of float32
// that need no parts.
inline Choice choose_bf16x6(const Problem& problem, const Gpu& gpu) {
  if (why_not_bf16x6(problem, gpu) != nullptr) return {};
  const SplitProduct product(problem);
  const auto ns = [&](const KernelConfig& config) { return product.ns(config, gpu.sm_count); };
  const auto any = [](const KernelConfig&) { return true; };
  const int config = cheapest_config(kBf16x6Configs, any, ns);
  const double expected = bf16x6_ns(kBf16x6Configs[config], problem, product, gpu);
  // A portable kernel, which takes the operands as they are, multiplies no faster.
  const bool is_certain = expected < problem.products() / kFfmaProductsPerNs;
  return {config, expected, is_certain ? -1 : expected};
}

inline double tf32_ns(const KernelConfig& config, const Problem& problem, const Work& work, const Gpu& gpu) {
  KernelConfig here = config;
  if (!is_like_h100(gpu)) here.cost.memory_bytes *= kTf32MemoryOfH200;
  return largest_bound_ns(here, problem, work, gpu.sm_count) + tf32_store_ns(config, problem, gpu.sm_count);
}

// As weigh_dense; the portable kernels may be faster for any product.
inline Choice weigh_tf32(const Problem& problem, const Gpu& gpu) {
  const Work work(problem, kTf32Bytes);
  const auto ns = [&](const KernelConfig& config) { return tf32_ns(config, problem, work, gpu); };
  const int best = cheapest_config(
      kTf32Configs, [&](const KernelConfig& config) { return why_not_tf32(config.tile, problem, gpu) == nullptr; }, ns);
  if (best < 0) return {};
  const double expected = ns(kTf32Configs[best]);
  return narrow_pays(problem, gpu, expected) ? Choice{} : Choice{best, expected, expected};
}
inline int choose_tf32(const Problem& problem, const Gpu& gpu) { return weigh_tf32(problem, gpu).config; }

}  // namespace tileon::sm90
