// Which configs can run a problem, and which one is expected to be fastest: pure functions of the problem and the GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

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

// Nanoseconds that the model expects of so many CTAs, `k` each, on an H200's SMs: full waves of ctas_per_sm CTAs, then
// one of what is left, which takes as long as its fullest SM.
inline double waves_ns(const KernelConfig& config, Kind kind, int64_t tiles, int64_t k, const Gpu& gpu) {
  const float ns_per_k = config.ns_per_k[is_scaled(kind) ? static_cast<int>(kind) - static_cast<int>(Kind::kMxfp8) : 0];
  const int64_t slots = static_cast<int64_t>(gpu.sm_count) * config.tile.ctas_per_sm;
  const double alone = static_cast<double>(ns_per_k) * static_cast<double>(k) + config.ns_fixed;
  const auto together = [&](int64_t ctas) {
    const double used = static_cast<double>(ctas) * config.share;
    return ctas == 0 ? 0.0 : alone * (used > 1 ? used : 1);
  };
  const int64_t left = tiles % slots;
  return static_cast<double>(tiles / slots) * together(config.tile.ctas_per_sm) +
         together((left + gpu.sm_count - 1) / gpu.sm_count);
}

// How a config runs a problem: the slices of k, and the nanoseconds expected of that.
struct Expected {
  KSlices slices;
  double ns;
};

// The slices that are expected to be fastest: none, or as many as give each SM one CTA, or all that it can hold.
inline Expected expect_tiles(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  const int64_t tiles = tile_order(config.tile, problem.m, problem.n).count() * problem.batch;
  Expected best{{}, waves_ns(config, kind, tiles, problem.k, gpu)};
  if (!problem.may_slice_k || !takes_slices(config.tile.family) || problem.k < 2 * kMinSliceK) return best;
  for (const int ctas_per_sm : {1, config.tile.ctas_per_sm}) {
    const int64_t ctas = int64_t{gpu.sm_count} * ctas_per_sm;
    if (tiles > ctas / 2) continue;
    const KSlices slices = slices_of(problem.k, ctas / tiles, config.tile.block_k);
    if (slices.count == 1) continue;
    const double ns = waves_ns(config, kind, tiles * slices.count, slices.k, gpu) + add_slices_ns(problem, slices);
    if (ns < best.ns) best = {slices, ns};
  }
  return best;
}

inline KSlices slices_of(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return expect_tiles(config, kind_of(problem), problem, gpu).slices;
}

// A launch of a gather kernel, which its costs leave out, as those of others leave out kPortableLaunchNs. Fitted with
// them to 300 unaligned products of any sizes on an H100: nine of ten times are within a quarter of what is expected.
constexpr double kGatherLaunchNs = 2000.0;

inline double expected_ns(const KernelConfig& config, Kind kind, const Problem& problem, const Gpu& gpu) {
  if (config.tile.family != Family::kNarrow) return expect_tiles(config, kind, problem, gpu).ns;
  const double ns = narrow_ns(problem, gpu, config.tile.tile_m);  // without a launch, as all others
  return bit(kind) & (k8 | k16 | kTf32) ? ns * kNarrowMargin - kGatherLaunchNs : ns - kPortableLaunchNs;
}

// Of products whose operands must be gathered: nanoseconds of aligned copies and a kernel that reads those, fitted to
// the 141 of those products for which they were made. The host has one more launch and an allocation, some 2 us, which
// an eager caller waits for where the GPU has nothing else to do (benchmarks/results/h200/awkward.csv).
constexpr double kCopiedStartNs = 9100.0;     // the launches, a first and a last wave
constexpr double kCopyBytesPerNs = 2600.0;    // that are copied
constexpr double kCopiedBytesPerNs = 1350.0;  // of operands and output, while they are multiplied
constexpr double kCopiedProductsPerNs = 287e3;
constexpr double kCopiedNsPerK = 0.54, kCopiedMostK = 4000.0;

inline double copied_ns(const Problem& problem) {
  const double batch = static_cast<double>(problem.batch), k = static_cast<double>(problem.k);
  const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
  const double element = batch * info(problem.a.dtype).bytes;
  double copied = 0;
  if (!reads_vectors(problem.a, problem, problem.m)) copied += m * k * element;
  if (!reads_vectors(problem.b, problem, problem.n)) copied += n * k * element;
  const double moved = (m * k + n * k + m * n) * element / kCopiedBytesPerNs;
  const double multiplied = std::max(batch * m * n * k / kCopiedProductsPerNs, moved);
  return kCopiedStartNs + copied / kCopyBytesPerNs + multiplied + std::min(k, kCopiedMostK) * kCopiedNsPerK;
}

// Of other dtypes a copy pays once gathering takes so long. Copies of fp8 along k are transposed mostly: small products
// took 15 to 22 us so on an H100.
constexpr double kTf32CopyPaysFromNs = 8000.0, kFloat8CopyPaysFromNs = 15000.0;

inline bool copies_pay(const Problem& problem, const Gpu& gpu) {
  const Kind kind = kind_of(problem);
  const auto gathers = [&](const KernelConfig& config) {
    return config.tile.family == Family::kMmaGather && (config.kinds & bit(kind)) != 0;
  };
  const double gathered =
      expected_ns(*std::find_if(kDenseConfigs, std::end(kDenseConfigs), gathers), kind, problem, gpu);
  const double copied = copied_ns(problem);
  const bool pays = is_float8(problem.a.dtype) ? gathered >= kFloat8CopyPaysFromNs
                    : kind == Kind::kTf32      ? gathered >= kTf32CopyPaysFromNs
                                               : gathered + kGatherLaunchNs > copied;
  return pays && !narrow_pays(problem, gpu, copied / kNarrowMargin);
}

inline bool may_choose(const KernelConfig& config, const Problem& problem) {
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

}  // namespace tileon::sm80
