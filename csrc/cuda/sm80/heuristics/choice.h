// Which configs can run a problem, and which one is expected to be fastest: pure functions of the problem and the GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

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
  Expected best{
      {}, waves_ns(config, kind, tiles, factor * static_cast<double>(problem.k), gpu) + stored_ns(config, problem)};
  if (!problem.may_slice_k || !takes_slices(config.tile.family) || problem.k < 2 * kMinSliceK) return best;
  for (const int ctas_per_sm : {1, config.tile.ctas_per_sm}) {
    const int64_t ctas = int64_t{gpu.sm_count} * ctas_per_sm;
    if (tiles > ctas / 2) continue;
    const KSlices slices = slices_of(problem.k, ctas / tiles, config.tile.block_k);
    if (slices.count == 1) continue;
    const double walked = waves_ns(config, kind, tiles * slices.count, factor * static_cast<double>(slices.k), gpu);
    const double ns = walked + add_slices_ns(problem, slices);
    if (ns < best.ns) best = {slices, ns};
  }
  return best;
}

inline KSlices slices_of(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return expect_tiles(config, kind_of(problem), problem, gpu).slices;
}

// What the costs of a config leave out.
constexpr double launch_ns(Family family) { return family == Family::kMmaGather ? 2000.0 : kPortableLaunchNs; }

// With a launch.
inline double expected_ns(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  const Family family = config.tile.family;
  if (family != Family::kNarrow) return expect_tiles(config, kind, problem, gpu).ns + launch_ns(family);
  const double ns = narrow_ns(problem, gpu, config.tile.tile_m);
  return bit(kind) & kGathered ? ns * kNarrowMargin : ns;  // what the others of these kinds take is known better
}

// The same where costs of other backends may be held against it: of float32, TF32 and float64, and of kDirect. Negative
// elsewhere: on Hopper, operands of 16 and of 8 bits that other portable kernels read are read by that backend's own.
inline double comparable_ns(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  const bool is_known = (bit(kind) & (k32 | kTf32 | k64)) != 0 || config.tile.family == Family::kDirect;
  return is_known ? expected_ns(config, kind, problem, gpu) : -1;
}

// What a product of copied operands takes: `start` for the launches, the first and the last wave; a nanosecond for each
// so many bytes that are copied, and for so many bytes of operands and output or so many multiplications, whichever
// take longer; `ns_per_k` for each k, as far as CTAs share a long one.
struct CopiedCost {
  double start, copied_bytes_per_ns, bytes_per_ns, products_per_ns, ns_per_k;
};
constexpr double kCopiedMostK = 4000.0;

// Fitted on an H100 to unaligned products of any sizes for which copies were made, 141 of 16 bits and 25 of TF32. The
// host has one more launch and an allocation, some 2 us, which an eager caller waits for where the GPU has nothing else
// to do (benchmarks/results/h200/awkward.csv).
constexpr CopiedCost kCopied16Bits{9100.0, 2600.0, 1350.0, 287e3, 0.54};
constexpr CopiedCost kCopiedTf32{13300.0, 1650.0, 1670.0, 170e3, 1.16};

// Of the output's bytes, so much more or less than of the others: rows that TMA writes, rows of which two columns are
// stored at once, and other rows.
inline double stored_factor(const Problem& problem) {
  const int64_t row_bytes = problem.out.stride_m * info(problem.out_dtype).bytes;
  return row_bytes % 16 == 0 ? 0.66 : row_bytes % 4 == 0 ? 1.0 : 1.3;
}

inline double copied_ns(const Problem& problem, const CopiedCost& cost) {
  const double batch = static_cast<double>(problem.batch), k = static_cast<double>(problem.k);
  const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
  const double element = batch * info(problem.a.dtype).bytes;
  double copied = 0;
  if (!reads_vectors(problem.a, problem, problem.m)) copied += m * k * element;
  if (!reads_vectors(problem.b, problem, problem.n)) copied += n * k * element;
  const double moved = (m * k + n * k + m * n * stored_factor(problem)) * element / cost.bytes_per_ns;
  const double multiplied = std::max(batch * m * n * k / cost.products_per_ns, moved);
  return cost.start + copied / cost.copied_bytes_per_ns + multiplied + std::min(k, kCopiedMostK) * cost.ns_per_k;
}

// The same of fp8, fitted to 1,130 products of an H200: operands are transposed or shifted, tiles have whole rows and
// columns of 64, and a long k costs more than its first part.
inline double copied_fp8_ns(const Problem& problem) {
  constexpr double kStart = 10370.0, kTransposedPerNs = 1729.0, kShiftedPerNs = 2453.0, kReadPerNs = 2684.0;
  constexpr double kStoredPerNs = 697.0, kProductsPerNs = 663e3, kNsPerK = 0.79, kNsPerMoreK = 1.31;
  const double batch = static_cast<double>(problem.batch), k = static_cast<double>(problem.k);
  const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
  double copied = 0;
  const auto add = [&](const Operand& operand, int64_t mn) {
    if (reads_vectors(operand, problem, mn)) return;
    const bool along_k = operand_access(operand, problem, mn).major == Major::kK;
    copied += static_cast<double>(mn) * k / (along_k ? kShiftedPerNs : kTransposedPerNs);
  };
  add(problem.a, problem.m);
  add(problem.b, problem.n);
  const double moved = (m + n) * k / kReadPerNs + m * n * stored_factor(problem) / kStoredPerNs;
  const double multiplied = std::ceil(m / 64) * std::ceil(n / 64) * 64 * 64 * k / kProductsPerNs;
  const double of_k = std::min(k, kCopiedMostK) * kNsPerK + std::max(0.0, k - kCopiedMostK) * kNsPerMoreK;
  return kStart + batch * (copied + std::max(multiplied, moved)) + of_k;
}

// Below so many nanoseconds as it lies, fp8 is not copied: few of the fit's products were so short. Else the factor
// prefers the copies, because a wrong choice of them costs less.
constexpr double kFloat8CopyPaysFromNs = 13000.0;
constexpr double kFloat8CopyFactor = 0.95;

// What a product of copied operands is weighed with.
inline double weighed_copied_ns(const Problem& problem) {
  if (is_float8(problem.a.dtype)) return kFloat8CopyFactor * copied_fp8_ns(problem);
  return copied_ns(problem, kind_of(problem) == Kind::kTf32 ? kCopiedTf32 : kCopied16Bits);
}

// Whether a config is weighed at all. Where k may not be sliced, and results may have to be batch invariant, none that
// hangs on where the rows of an operand along m begin.
inline bool may_choose(const KernelConfig& config, const Problem& problem) {
  if (config.tile.family == Family::kMmaWidened) return problem.may_slice_k;
  return config.tile.family != Family::kNarrow || may_be_narrow(problem);
}

// Whether aligned copies, and a kernel that reads those, are faster than the kernels that read any operand.
inline bool copies_pay(const Problem& problem, const Gpu& gpu) {
  const Kind kind = kind_of(problem);
  double gathered = std::numeric_limits<double>::infinity();
  for (const KernelConfig& config : kDenseConfigs)
    if (reads_as_they_lie(config.tile.family) && config.measured && may_choose(config, problem) &&
        why_not(config, kind, problem, gpu) == nullptr)
      gathered = std::min(gathered, expected_ns(config, kind, problem, gpu));
  if (is_float8(problem.a.dtype) && gathered < kFloat8CopyPaysFromNs) return false;
  const double copied = weighed_copied_ns(problem);
  return gathered > copied && !narrow_pays(problem, gpu, copied / kNarrowMargin);
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

// Of products without scales, with what the config takes where other backends' costs may be held against it.
inline Choice choose_dense(const Problem& problem, const Gpu& gpu) {
  const int config = choose(kDenseConfigs, problem, gpu);
  if (config < 0) return {};
  return {config, comparable_ns(kDenseConfigs[config], kind_of(problem), problem, gpu)};
}

}  // namespace tileon::sm80
