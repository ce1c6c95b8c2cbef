// Which configs can run a problem, and which one is expected to be fastest: pure functions of the problem and the GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/common/tile_order.h"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/heuristics/k_slices.h"
#include "cuda/sm80/heuristics/operand_access.h"

namespace tileon::sm80 {

inline Kind kind_of(const Problem& problem) {
  if (problem.a.dtype == DType::kFloat32) return problem.allow_tf32 ? Kind::kTf32 : Kind::kFloat32;
  const auto is = [&](const KindInfo& kind) {
    return kind.a == problem.a.dtype && kind.b == problem.b.dtype && kind.scale == problem.b.scale.type;
  };
  int kind = problem.is_scaled() ? static_cast<int>(Kind::kMxfp8) : 0;
  while (kind + 1 < kKindCount && !is(kKinds[kind])) ++kind;
  return static_cast<Kind>(kind);
}

// Why a config cannot run a problem of this kind on this GPU; null where it can.
inline const char* why_not(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  const TileConfig& tile = config.tile;
  if (!(config.kinds & bit(kind))) return "it does not take operands of this dtype";
  const int element_bytes = is_scaled(kind) ? kDecodedBytes : info(problem.a.dtype).bytes;
  if (tile.family == Family::kNarrow) return nullptr;  // it reads anything, by shared memory that every GPU has
  if (shared_bytes(tile, tile_element_bytes(tile.family, element_bytes)) > gpu.shared_bytes_per_block)
    return "this GPU has too little shared memory for it";
  if (is_scaled(kind)) return why_not_block_scaled(problem);  // other layouts of codes have been copied
  if (tile.family == Family::kMmaWidened)
    return why_not_access(reads_code_chunks(problem.a, problem, problem.m),
                          reads_code_chunks(problem.b, problem, problem.n));
  if (tile.family != Family::kMma && tile.family != Family::kSkinny) return nullptr;  // the others read anything
  if (is_float8(problem.a.dtype) && gpu.image < kFloat8Capability)
    return "fp8 needs code for compute capability 8.9 or newer";
  const bool along_k = tile.family == Family::kSkinny;
  return why_not_access(reads_vectors(problem.a, problem, problem.m, along_k),
                        reads_vectors(problem.b, problem, problem.n, along_k));
}

// Whether fp8 operands are multiplied faster as float16, but for the conversion: where the configs with fp8
// instructions cannot run.
inline bool widens_float8(const Problem& problem, const Gpu& gpu) {
  return is_float8(problem.a.dtype) &&
         (gpu.image < kFloat8Capability || !reads_vectors(problem.a, problem, problem.m) ||
          !reads_vectors(problem.b, problem, problem.n));
}

inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {static_cast<int>((m + tile.tile_m - 1) / tile.tile_m), static_cast<int>((n + tile.tile_n - 1) / tile.tile_n),
          tile.group_m};
}

// The factor of ns_per_k: by_elements where an operand has no aligned chunks of 16 bytes (kDirect, kMmaGather: of 4).
// Where k may not be sliced, 1: results may have to be batch invariant, and where rows of an operand along m begin,
// says which rows they are.
inline double element_factor(const KernelConfig& config, const Problem& problem) {
  if (config.by_elements == 1 || !problem.may_slice_k) return 1;
  const int bytes = gathers(config.tile.family) ? 4 : kVectorBytes;
  const bool by_vectors = operand_access(problem.a, problem, problem.m, bytes).vectors &&
                          operand_access(problem.b, problem, problem.n, bytes).vectors;
  return by_vectors ? 1 : config.by_elements;
}

// Nanoseconds that the model expects of so many CTAs, `k` each, on an H200's SMs: full waves of ctas_per_sm CTAs, then
// one of what is left, which takes as long as its fullest SM. Where an SM holds several CTAs, those of the next wave
// begin while others of this one wait, so that the first wave alone waits as long as a CTA does.
inline double waves_ns(const KernelConfig& config, Kind kind, int64_t tiles, double k, const Gpu& gpu) {
  const float ns_per_k = config.ns_per_k[is_scaled(kind) ? static_cast<int>(kind) - static_cast<int>(Kind::kMxfp8) : 0];
  const int64_t slots = static_cast<int64_t>(gpu.sm_count) * config.tile.ctas_per_sm;
  const double of_k = static_cast<double>(ns_per_k) * k;
  const auto together = [&](int64_t ctas) {
    const double count = static_cast<double>(ctas);
    const double rest = config.ns_fixed * std::max(1.0, count * config.fixed_share);
    return ctas == 0 ? 0.0 : of_k * std::max(1.0, count * config.share) + rest;
  };
  const int64_t left = tiles % slots, full = tiles / slots;
  const int at_once = config.tile.ctas_per_sm;
  const double waiting = at_once == 1 ? 0.0 : std::max(0.0, 1.0 - at_once * static_cast<double>(config.fixed_share));
  const double next_waves = static_cast<double>(std::max<int64_t>(full - (left == 0), 0));
  return static_cast<double>(full) * together(at_once) - next_waves * waiting * config.ns_fixed +
         together((left + gpu.sm_count - 1) / gpu.sm_count);
}

// What it takes at least to read the operands that lie along k, each once.
inline double read_ns(const KernelConfig& config, const Problem& problem) {
  if (config.bytes_per_ns == 0) return 0;
  const auto lines = [&](const Operand& operand, int64_t mn) {
    if (operand.stride_k > operand.stride_mn) return int64_t{0};
    return operand.stride_batch == 0 ? mn : problem.batch * mn;
  };
  const int64_t numbers = (lines(problem.a, problem.m) + lines(problem.b, problem.n)) * problem.k;
  return static_cast<double>(numbers) * info(problem.a.dtype).bytes / config.bytes_per_ns;
}

// Of an output that the CTAs finish themselves.
inline double stored_ns(const KernelConfig& config, const Problem& problem) {
  const double elements =
      static_cast<double>(problem.batch) * static_cast<double>(problem.m) * static_cast<double>(problem.n);
  return config.ns_per_element * std::min(elements, kMostStoredElements);
}

// How a config runs a problem: the slices of k, and the nanoseconds expected of that.
struct Expected {
  KSlices slices;
  double ns;
};

// The slices that are expected to be fastest: none, or as many as give each SM one CTA, or all that it can hold.
inline Expected expect_tiles(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  const int64_t tiles = tile_order(config.tile, problem.m, problem.n).count() * problem.batch;
  const double factor = element_factor(config, problem);
  const double least = read_ns(config, problem);
  const double walked = waves_ns(config, kind, tiles, factor * static_cast<double>(problem.k), gpu);
  Expected best{{}, std::max(least, walked) + stored_ns(config, problem)};
  if (!problem.may_slice_k || !takes_slices(config.tile.family) || problem.k < 2 * kMinSliceK) return best;
  for (const int ctas_per_sm : {1, config.tile.ctas_per_sm}) {
    const int64_t ctas = int64_t{gpu.sm_count} * ctas_per_sm;
    if (tiles > ctas / 2) continue;
    const KSlices slices = slices_of(problem.k, ctas / tiles, config.tile.block_k);
    if (slices.count == 1) continue;
    const double of_slices = waves_ns(config, kind, tiles * slices.count, factor * static_cast<double>(slices.k), gpu);
    const double ns = std::max(least, of_slices) + add_slices_ns(problem, slices);
    if (ns < best.ns) best = {slices, ns};
  }
  return best;
}

inline KSlices slices_of(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return expect_tiles(config, kind_of(problem), problem, gpu).slices;
}

// What the costs of a config leave out. Kernels that fetch elements one by one begin sooner on an H100 than on an H200,
// which the costs are of: of 16 bits by 0.5 to 0.9 us over 4,700 products, of fp8 by 0.3 to 0.5 over 480.
constexpr double kH100StartsSoonerNs = 500.0;
// What a kernel's start takes longer with codes of these formats than the costs say, or less: seen in products of a k
// up to 128.
inline double scales_start_ns(Kind kind) {
  if (!is_scaled(kind)) return 0;
  return kind == Kind::kMxfp4 ? -900.0 : kind == Kind::kNvfp4 ? 400.0 : 900.0;
}
inline double launch_ns(Family family, Kind kind, const Gpu& gpu) {
  const double ns = family == Family::kMmaGather ? 2000.0 : kPortableLaunchNs + scales_start_ns(kind);
  const bool starts_sooner = gathers(family) && (bit(kind) & (k16 | k8)) != 0 && is_like_h100(gpu);
  return starts_sooner ? ns - kH100StartsSoonerNs : ns;
}

// What an epilogue that is not cheap takes longer for an element of the output: of gelu, 2181 x 8313, and of float64,
// by 45 random products of up to 20 million elements on an H200, more where a thread has more sums, less of kDirect,
// whose threads have few. Of float32 it was not seen beside the products.
constexpr double kActivatedNsPerElement = 0.0023;
inline double activated_ns_per_element(const TileConfig& tile, Kind kind) {
  if (kind != Kind::kFloat64) return bit(kind) & (k8 | k16 | kTf32) ? kActivatedNsPerElement : 0;
  if (tile.family != Family::kDmma) return 0.0015;
  return tile.tile_m * tile.tile_n > 64 * 64 ? 0.007 : 0.004;
}
inline double activated_ns(const KernelConfig& config, Kind kind, const Problem& problem) {
  if (is_cheap_epilogue(problem)) return 0;
  const double rows = static_cast<double>(problem.batch * problem.m);
  return activated_ns_per_element(config.tile, kind) * rows * static_cast<double>(problem.n);
}

// With a launch.
inline double expected_ns(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  const Family family = config.tile.family;
  if (family != Family::kNarrow)
    return expect_tiles(config, kind, problem, gpu).ns + launch_ns(family, kind, gpu) +
           activated_ns(config, kind, problem);
  const double ns = narrow_ns(problem, gpu, config.tile.tile_m) + activated_ns(config, kind, problem);
  return bit(kind) & kGathered ? ns * kNarrowMargin : ns;  // what the others of these kinds take is known better
}

// What another backend's expected time is held against. Of 16 bits with a margin, since Hopper's costs are known
// better, and where k may not be sliced the direct kernels' alone: there results may have to be batch invariant, and
// which of the others can run hangs on where the rows of `a` begin. Of fp8 the direct kernels' alone, too: costs of the
// others, and of Hopper's, have not been compared. Where k is sliced the margin is larger: if rows of a long k begin
// within L2's lines, these configs take 1.3 to 1.6 times what is expected (bfloat16 NT 984 x 2 x 12344: 27 us for 17,
// and 16 by Hopper's). Of 1,150 rectangles that Hopper's kernels can run and store by TMA they were faster at none.
constexpr double kMarginOf16Bits = 1.06, kMarginOfSlices = 1.3;
inline double compared_ns(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu,
                          double expected) {
  if (bit(kind) & (k32 | kTf32 | k64)) return expected;
  const bool is_direct = config.tile.family == Family::kDirect;
  if (bit(kind) & k16) {
    if (!is_direct && !problem.may_slice_k) return -1;
    return expected * (slices_of(config, problem, gpu).count > 1 ? kMarginOfSlices : kMarginOf16Bits);
  }
  return is_direct ? expected : -1;
}

// Whether a config is weighed at all. Where k may not be sliced, and results may have to be batch invariant, none that
// hangs on where the rows of an operand along m begin.
inline bool may_choose(const KernelConfig& config, const Problem& problem) {
  if (config.tile.family == Family::kMmaWidened) return problem.may_slice_k;
  return config.tile.family != Family::kNarrow || may_be_narrow(problem);
}

// The config expected to be fastest; -1 where none supports the problem (one always does).
template <int kCount>
int choose(const KernelConfig (&configs)[kCount], const Problem& problem, const Gpu& gpu) {
  const Kind kind = kind_of(problem);
  const auto runs = [&](const KernelConfig& config) {
    return may_choose(config, problem) && why_not(config, kind, problem, gpu) == nullptr;
  };
  return cheapest_config(configs, runs,
                         [&](const KernelConfig& config) { return expected_ns(config, kind, problem, gpu); });
}

// Of products without scales.
inline Choice choose_dense(const Problem& problem, const Gpu& gpu) {
  const int config = choose(kDenseConfigs, problem, gpu);
  if (config < 0) return {};
  const Kind kind = kind_of(problem);
  const double expected = expected_ns(kDenseConfigs[config], kind, problem, gpu);
  return {config, expected, compared_ns(kDenseConfigs[config], kind, problem, gpu, expected)};
}

// Of two operands with block scales, whose time is held against that of Hopper's kernels as it is.
inline Choice choose_block_scaled(const Problem& problem, const Gpu& gpu) {
  const int config = choose(kBlockScaledConfigs, problem, gpu);
  if (config < 0) return {};
  const double expected = expected_ns(kBlockScaledConfigs[config], kind_of(problem), problem, gpu);
  return {config, expected, expected};
}

// ---- where results are batch invariant ----

// Configs of one number add the products of each sum in the same order: kernels of the same instruction walk k in its
// steps, whatever their tile, where k has one warp; fp8 has instructions of its own, and those of float16. 0: the
// config has an order of its own.
inline int order_of_sums(const KernelConfig& config) {
  const TileConfig& tile = config.tile;
  if (tile.family == Family::kNarrow || tile.family == Family::kSkinny) return 0;
  if (tile.family == Family::kDirect && tile.warps_m > 1) return 0;
  return tile.family == Family::kMma && (config.kinds & k8) != 0 ? 2 : 1;
}

// As Backend::choose_alike.
template <int kCount>
int choose_alike(const KernelConfig (&configs)[kCount], const Problem& problem, const Gpu& gpu, int config) {
  const Kind kind = kind_of(problem);
  const int order = order_of_sums(configs[config]);
  const auto runs = [&](const KernelConfig& each) {
    const bool is_alike = order == 0 ? &each == &configs[config] : order_of_sums(each) == order;
    return is_alike && may_choose(each, problem) && why_not(each, kind, problem, gpu) == nullptr;
  };
  return cheapest_config(configs, runs,
                         [&](const KernelConfig& each) { return expected_ns(each, kind, problem, gpu); });
}

inline int choose_dense_alike(const Problem& problem, const Gpu& gpu, int config) {
  return choose_alike(kDenseConfigs, problem, gpu, config);
}
inline int choose_block_scaled_alike(const Problem& problem, const Gpu& gpu, int config) {
  return choose_alike(kBlockScaledConfigs, problem, gpu, config);
}

}  // namespace tileon::sm80
