// What the Hopper kernels take, and which config takes a problem: pure functions, compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "cuda/common/kernel_choice.h"
#include "cuda/common/narrow.h"
#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/cost_numbers.h"
#include "cuda/sm90/heuristics/small_m.h"
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

// Of bfloat16 and a weight of e2m1 with scales of a byte, which is decoded in the main loop.
inline const char* why_not_fp4_weight(const Problem& problem, const Gpu& gpu) {
  if (!problem.is_weight_only() || problem.b.dtype != DType::kFloat4E2M1) return "it takes a weight of mxfp4 or nvfp4";
  if (const char* reason = why_not_weight_only(problem, DType::kBFloat16); reason != nullptr) return reason;
  if (const char* reason = why_not_global_scale(problem); reason != nullptr) return reason;
  if (!lie_in_blocks(problem.b.scale)) return "it takes packed scales";
  if (problem.k == 0) return "k is 0";
  const TmaAccess a = tma_access(problem.a, 1, problem.m, problem.k, kElementBytes);
  const char* reason = why_not_access(a.reads_along_k(), tma_reads_codes(problem.b, problem.n, problem.k));
  return reason != nullptr ? reason : why_not_sizes(problem, gpu);
}

// Of 16 bits and a weight of 8 bits with float32 scales that do not change along k.
inline const char* why_not_weight_codes(const Problem& problem, const Gpu& gpu) {
  if (!problem.is_weight_only() || problem.b.scale.type != ScaleType::kFloat32)
    return "it takes a weight alone with float32 scales";
  if (const char* reason = why_not_small_m_weight(problem); reason != nullptr) return reason;
  if (!is_constant_along_k(problem.b, problem.k)) return "it takes float32 scales that do not change along k";
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
      return why_not_fp4_weight(problem, gpu);
    case Operands::kWeightCodes:
      return why_not_weight_codes(problem, gpu);
    default:
      return why_not_prepared(operands, problem, gpu);
  }
}

// ---- the choice ----

// Kernels that send the sums through shared memory for any formula but the cheap ones take up to twice as long then.
inline bool may_choose(const KernelConfig& config, bool cheap) {
  return cheap || has_activated_store(config.tile) || !persistent(config.tile);
}

// A config that choose_dense weighs, and what it expects of it in nanoseconds: the parts of Costs.
struct Candidate {
  const char* name;
  double ns, start, compute, memory, delivery, l2, waves;
};

// All of them, in the order of the table; none where the kernels cannot run the problem.
inline std::vector<Candidate> explain(const Problem& problem, const Gpu& gpu) {
  std::vector<Candidate> candidates;
  if (why_not_dense(problem, gpu) != nullptr) return candidates;
  const auto costs = dense_costs(Operands::k16Bits, problem, gpu);
  const bool cheap = is_cheap_epilogue(problem);
  for (int i = 0; i < kDenseConfigCount; ++i) {
    if (!may_choose(kDenseConfigs[i], cheap)) continue;
    candidates.push_back({kDenseConfigs[i].name, costs.ns[i], costs.start[i], costs.compute[i], costs.memory[i],
                          costs.delivery[i], costs.l2[i], costs.waves[i]});
  }
  return candidates;
}

// The config that is expected to be fastest, by number; -1 where none can run the problem, and where the portable
// kernels for few rows or columns should be faster. The costs are those of cheap formulas.
inline int choose_dense(const Problem& problem, const Gpu& gpu) {
  if (why_not_dense(problem, gpu) != nullptr) return -1;
  const auto costs = dense_costs(Operands::k16Bits, problem, gpu);
  const bool cheap = is_cheap_epilogue(problem);
  const int best = cheapest_config(
      kDenseConfigs, [&](const KernelConfig& config) { return may_choose(config, cheap); },
      [&](const KernelConfig& config) { return costs.ns[&config - kDenseConfigs]; });
  return narrow_pays(problem, gpu, costs.ns[best] / kNarrowMargin) ? -1 : best;
}

// As choose_dense.
inline int choose_fp8(const Problem& problem, const Gpu& gpu) {
  if (why_not_fp8(problem, gpu) != nullptr) return -1;
  const Work work(problem, 1);
  const Operands wanted = problem.fast_accum ? Operands::kFp8 : Operands::kFp8Promoted;
  const auto ns = [&](const KernelConfig& config) {
    return largest_bound_ns(config, problem, work, gpu.sm_count) + staged_store_ns(config, problem, gpu.sm_count);
  };
  const int best = cheapest_config(
      kFp8Configs, [&](const KernelConfig& config) { return config.operands == wanted; }, ns);
  return narrow_pays(problem, gpu, ns(kFp8Configs[best]) / kNarrowMargin) ? -1 : best;
}

// As choose_dense; -1 too where other portable kernels, which take the operands as they are, should be as fast.
inline int choose_bf16x6(const Problem& problem, const Gpu& gpu) {
  if (why_not_bf16x6(problem, gpu) != nullptr) return -1;
  const Problem split = bf16x3_problem(problem, nullptr);
  const Work work(split, kElementBytes);
  const auto ns = [&](const KernelConfig& config) { return product_ns(config, split, work, gpu.sm_count); };
  const auto any = [](const KernelConfig&) { return true; };
  const int config = cheapest_config(kBf16x6Configs, any, ns);
  const double total = ns(kBf16x6Configs[config]) + split_ns(problem);
  return total < portable_ns(problem) && !narrow_pays(problem, gpu, total) ? config : -1;
}

// As choose_dense; -1 too where the portable kernels should be as fast.
inline int choose_tf32(const Problem& problem, const Gpu& gpu) {
  const Work work(problem, kTf32Bytes);
  const auto ns = [&](const KernelConfig& config) { return largest_bound_ns(config, problem, work, gpu.sm_count); };
  const int best = cheapest_config(
      kTf32Configs, [&](const KernelConfig& config) { return why_not_tf32(config.tile, problem, gpu) == nullptr; }, ns);
  if (best < 0) return -1;
  const double expected = ns(kTf32Configs[best]);
  return expected < portable_tf32_ns(problem) && !narrow_pays(problem, gpu, expected) ? best : -1;
}

// ---- block-scaled products ----

// Fewer rows of either operand are faster without being prepared.
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

inline int choose_small_m(const Problem& problem) {
  return cheapest_config(
      kBlockScaledConfigs, [](const KernelConfig& config) { return config.operands == Operands::kCodes; },
      [&](const KernelConfig& config) { return small_m_cost(problem.m, config.tile.tile_m); });
}

// In shorter sums few products make up for what another loses (docs/block_scaled_on_hopper.md).
constexpr int64_t kFloat8MinK = 1024;

constexpr bool may_be_float8(const Problem& problem) { return problem.fast_accum && problem.k >= kFloat8MinK; }

// Products (m * n * k) from which int8 saves more than looking at the scales costs.
constexpr double kInt8PaysFrom = 1472.0 * 1472.0 * 1472.0;

// The cheapest config whose operands are prepared so.
inline int choose_prepared(Operands operands, const Problem& problem, const Gpu& gpu) {
  const Problem prepared = prepared_problem(problem, nullptr, nullptr);
  const auto is_wanted = [&](const KernelConfig& config) { return config.operands == operands; };
  if (!is_by_encoding(operands)) {
    const auto costs = dense_costs(operands, prepared, gpu);
    return cheapest_config(kBlockScaledConfigs, is_wanted,
                           [&](const KernelConfig& config) { return costs.ns[config.like]; });
  }
  const Work work(prepared, 1);
  return cheapest_config(kBlockScaledConfigs, is_wanted, [&](const KernelConfig& config) {
    return largest_bound_ns(config, prepared, work, gpu.sm_count);
  });
}

// The cheapest config for codes with these float32 scales.
inline int choose_scaled_codes(const Problem& problem, const Gpu& gpu) {
  const Operands operands = scaled_codes_of(problem);
  if (why_not_scaled_codes(operands, problem, gpu) != nullptr) return -1;
  const Work work(problem, 1);
  return cheapest_config(
      kBlockScaledConfigs, [&](const KernelConfig& config) { return config.operands == operands; },
      [&](const KernelConfig& config) {
        return largest_bound_ns(config, problem, work, gpu.sm_count) + staged_store_ns(config, problem, gpu.sm_count);
      });
}

// ---- a weight alone scaled: bfloat16 and fp4, in nanoseconds, fitted to some 100 products on an H200; what decides
// between the kernels that decode and those that multiply bfloat16, and shared tiles, to an H100's ----

// The kernels for few rows are asked up to so many.
constexpr int64_t kMaxFewRowsOfWeight = 256;

// And of a weight of 8 bits under float32 scales up to so many, or at any number of rows where scales change along k:
// the other kernel of those multiplies in float32, which takes two to three times as long.
constexpr int64_t kMaxRowsOfCodes = 384;

// Of those that the main loop can convert no kernel but that for few rows is asked up to so many.
constexpr int64_t kFewRowsOfCodes = 32;

// The cheaper of the kernels for few rows and of those that convert a weight's codes in the main loop.
inline int choose_weight_codes(const Problem& problem, bool takes_few, const Gpu& gpu) {
  const auto ns = [&](const KernelConfig& config) { return decoded_weight_ns(config, problem, gpu.sm_count); };
  const int best = cheapest_config(
      kBlockScaledConfigs, [](const KernelConfig& config) { return config.operands == Operands::kWeightCodes; }, ns);
  if (!takes_few || problem.m > kMaxFewRowsOfWeight) return best;
  const bool is_few = problem.m <= kFewRowsOfCodes || small_m_codes_ns(problem, gpu) < ns(kBlockScaledConfigs[best]);
  return is_few ? choose_small_m(problem) : best;
}

// The cheapest of the kernels that decode the weight and of those that multiply it as bfloat16.
inline int choose_weight_only(const Problem& problem, const Gpu& gpu) {
  const bool takes_few = problem.k > 0 && why_not_small_m(problem, gpu) == nullptr;
  const bool prepares = problem.k > 0 && why_not_prepared(Operands::kBFloat16, problem, gpu) == nullptr;
  if (why_not_fp4_weight(problem, gpu) != nullptr) {
    const bool has_float32_scales = problem.b.scale.type == ScaleType::kFloat32;
    const bool has_others = !has_float32_scales || is_constant_along_k(problem.b, problem.k);
    if (why_not_weight_codes(problem, gpu) == nullptr) return choose_weight_codes(problem, takes_few, gpu);
    const int64_t most = has_float32_scales ? kMaxRowsOfCodes : kMaxSmallM;
    if (takes_few && (problem.m <= most || !has_others)) return choose_small_m(problem);
    return prepares ? choose_prepared(Operands::kBFloat16, problem, gpu) : -1;
  }
  const Problem prepared = prepared_problem(problem, nullptr, nullptr);
  const auto costs = dense_costs(Operands::kBFloat16, prepared, gpu);
  const auto runs = [&](const KernelConfig& config) {
    if (config.operands == Operands::kCodes) return takes_few && problem.m <= kMaxFewRowsOfWeight;
    return config.operands == Operands::kFp4Weight || (config.operands == Operands::kBFloat16 && prepares);
  };
  const auto ns = [&](const KernelConfig& config) {
    if (config.operands == Operands::kCodes) return small_m_weight_ns(problem, config.tile.tile_m, gpu);
    if (config.operands == Operands::kFp4Weight) return decoded_weight_ns(config, problem, gpu.sm_count);
    return prepared_weight_ns(problem, costs.ns[config.like]);
  };
  return cheapest_config(kBlockScaledConfigs, runs, ns);
}

// As choose_dense; -1 too where the portable kernels are faster.
inline int choose_block_scaled(const Problem& problem, const Gpu& gpu) {
  if (problem.is_weight_only()) return choose_weight_only(problem, gpu);
  if (!problem.is_block_scaled()) return choose_scaled_codes(problem, gpu);
  if (is_small_m(problem, gpu)) return choose_small_m(problem);
  if (problem.k == 0 || problem.m < kPreparePaysFromRows || problem.n < kPreparePaysFromRows) return -1;
  const bool is_prepared = problem.prepared_b.data != nullptr;
  const bool by_encoding = is_prepared ? problem.prepared_b.form == PreparedForm::kInt8
                                       : problem.is_mxfp4() && problem.products() >= kInt8PaysFrom;
  const Operands narrow = may_be_float8(problem) ? Operands::kE5M2 : Operands::kInt8;
  const Operands operands = by_encoding && problem.k <= kInt8MaxK ? narrow : Operands::kBFloat16;
  return why_not_prepared(operands, problem, gpu) == nullptr ? choose_prepared(operands, problem, gpu) : -1;
}

// ---- what is remembered ----

// Of products without scales. No GPU has the capability 0: a key is never all zeros.
struct ChoiceKey : KeyWords<12> {
  ChoiceKey() = default;
  ChoiceKey(const Problem& problem, const Gpu& gpu) {
    const Operand &a = problem.a, &b = problem.b;
    const bool by_tma = tma_can_write(problem.out, problem.batch, problem.m, problem.n, kElementBytes);
    const int64_t memory = packed({begin(a.data), begin(b.data), is_cheap_epilogue(problem), by_tma,
                                   takes_vector_stores(problem, 2), takes_vector_stores(problem, 4)});
    const int64_t kind =
        packed({static_cast<int>(a.dtype), static_cast<int>(b.dtype), static_cast<int>(problem.out_dtype),
                problem.may_slice_k * 4 + problem.fast_accum * 2 + problem.allow_tf32,
                gpu.capability * 2 + is_like_h100(gpu), gpu.sm_count});
    words = {problem.m,      problem.n,   problem.k,  problem.batch,  a.stride_mn, a.stride_k,
             a.stride_batch, b.stride_mn, b.stride_k, b.stride_batch, memory,      kind};
  }

  static int begin(const void* data) { return static_cast<int>(reinterpret_cast<uintptr_t>(data) % kLineBytes); }
};

// Of products with scales.
struct ScaledChoiceKey : KeyWords<24> {
  ScaledChoiceKey() = default;
  ScaledChoiceKey(const Problem& problem, const Gpu& gpu) {
    const Scale &a = problem.a.scale, &b = problem.b.scale;
    const ScaleStrides &of_a = a.strides, &of_b = b.strides;
    const PreparedWeight& weight = problem.prepared_b;
    const int64_t memory = packed({ChoiceKey::begin(a.data), ChoiceKey::begin(b.data), a.vec, b.vec,
                                   static_cast<int>(a.type), static_cast<int>(b.type)});
    const int64_t others =
        packed({weight.data != nullptr, static_cast<int>(weight.form), problem.global_scale_stride != 0});
    const std::initializer_list<int64_t> scales = {of_a.row_block, of_a.col_block, of_a.row,       of_a.quarter,
                                                   of_a.col,       memory,         of_b.row_block, of_b.col_block,
                                                   of_b.row,       of_b.quarter,   of_b.col,       others};
    std::ranges::copy(scales, std::ranges::copy(ChoiceKey(problem, gpu).words, words.begin()).out);
  }
};

inline constexpr auto choose_dense_once = &choose_once<ChoiceKey, choose_dense>;
inline constexpr auto choose_fp8_once = &choose_once<ChoiceKey, choose_fp8>;
inline constexpr auto choose_bf16x6_once = &choose_once<ChoiceKey, choose_bf16x6>;
inline constexpr auto choose_tf32_once = &choose_once<ChoiceKey, choose_tf32>;
inline constexpr auto choose_block_scaled_once = &choose_once<ScaledChoiceKey, choose_block_scaled>;

}  // namespace tileon::sm90
