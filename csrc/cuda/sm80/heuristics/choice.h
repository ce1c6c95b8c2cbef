// Which configs can run a problem, and which one is expected to be fastest: pure functions of the problem and the GPU.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/common/tile_order.h"
#include "cuda/runtime/gpu.h"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/heuristics/operand_access.h"

namespace tileon::sm80 {

inline Kind kind_of(const Problem& problem) {
  const DType a = problem.a.dtype, b = problem.b.dtype;
  if (problem.is_scaled()) {
    int pair = 0;  // nvfp4, the last one, where no other is it
    while (pair + 1 < kFormatPairCount && kFormatPairs[pair] != FormatPair{a, b, problem.b.scale.type}) ++pair;
    return static_cast<Kind>(kDenseKindCount + pair);
  }
  switch (a) {
    case DType::kFloat16:
      return Kind::kFloat16;
    case DType::kBFloat16:
      return Kind::kBFloat16;
    case DType::kFloat32:
      return problem.allow_tf32 ? Kind::kTf32 : Kind::kFloat32;
    case DType::kFloat8E4M3:
      return b == DType::kFloat8E4M3 ? Kind::kE4M3 : Kind::kE4M3E5M2;
    case DType::kFloat8E5M2:
      return b == DType::kFloat8E4M3 ? Kind::kE5M2E4M3 : Kind::kE5M2;
    default:
      return Kind::kFloat64;
  }
}

// Why not both operands can be loaded in 16-byte chunks along k.
inline const char* why_not_along_k(const Problem& problem) {
  const auto along_k = [&](const Operand& operand, int64_t mn) {
    const OperandAccess access = operand_access(operand, problem, mn);
    return access.vectors && access.major == Major::kK;
  };
  if (!along_k(problem.a, problem.m)) return "it cannot read the strides or the alignment of `a`";
  if (!along_k(problem.b, problem.n)) return "it cannot read the strides or the alignment of `b`";
  return nullptr;
}

// Why a config cannot run the problem on this GPU; null where it can. There is no problem with scales that a config of
// its table does not take.
inline const char* why_not(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  const TileConfig& tile = config.tile;
  if (!(config.kinds & bit(kind_of(problem)))) return "it does not take operands of this dtype";
  const int element_bytes = problem.is_scaled() ? kDecodedBytes : info(problem.a.dtype).bytes;
  if (shared_bytes(tile, tile_element_bytes(tile.family, element_bytes)) > gpu.shared_bytes_per_block)
    return "this GPU has too little shared memory for it";
  if (problem.is_scaled()) return nullptr;  // other layouts of codes have been copied
  if (tile.family == Family::kSkinny) return why_not_along_k(problem);
  if (tile.family != Family::kMma) return nullptr;  // the other families read anything
  if (is_float8(problem.a.dtype) && gpu.image < kFloat8Capability)
    return "fp8 needs code for compute capability 8.9 or newer";
  if (!reads_vectors(problem.a, problem, problem.m)) return "it cannot read the strides or the alignment of `a`";
  if (!reads_vectors(problem.b, problem, problem.n)) return "it cannot read the strides or the alignment of `b`";
  return nullptr;
}

inline bool supports(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  return why_not(config, problem, gpu) == nullptr;
}

// Whether fp8 operands are multiplied faster as float16, but for the conversion: where the configs with fp8
// instructions cannot run.
inline bool widens_float8(const Problem& problem, const Gpu& gpu) {
  if (!is_float8(problem.a.dtype)) return false;
  return gpu.image < kFloat8Capability || !reads_vectors(problem.a, problem, problem.m) ||
         !reads_vectors(problem.b, problem, problem.n);
}

inline TileOrder tile_order(const TileConfig& tile, int64_t m, int64_t n) {
  return {static_cast<int>((m + tile.tile_m - 1) / tile.tile_m), static_cast<int>((n + tile.tile_n - 1) / tile.tile_n),
          tile.group_m};
}

// Nanoseconds that the model expects on an H200's SMs: full waves of ctas_per_sm CTAs, then one of what is left, which
// takes as long as its fullest SM.
inline double expected_ns(const KernelConfig& config, const Problem& problem, const Gpu& gpu) {
  const float ns_per_k = config.ns_per_k[problem.is_scaled() ? format_pair(kind_of(problem)) : 0];
  const int64_t tiles = tile_order(config.tile, problem.m, problem.n).count() * problem.batch;
  const int64_t slots = static_cast<int64_t>(gpu.sm_count) * config.tile.ctas_per_sm;
  const double alone = static_cast<double>(ns_per_k) * static_cast<double>(problem.k) + config.ns_fixed;
  const auto together = [&](int64_t ctas) {
    const double used = static_cast<double>(ctas) * config.share;
    return ctas == 0 ? 0.0 : alone * (used > 1 ? used : 1);
  };
  const int64_t left = tiles % slots;
  return static_cast<double>(tiles / slots) * together(config.tile.ctas_per_sm) +
         together((left + gpu.sm_count - 1) / gpu.sm_count);
}

// Where the operands must be gathered, an aligned copy of them pays for large products and for a long k, of which a few
// CTAs walk all. On an H200 a copy saves GPU time from about 160^3 products (batch * m * n * k) on, but costs the host
// two more launches, which an eager caller waits for up to about 512^3: between the two
// (benchmarks/results/h200/awkward.csv). Likewise two copies take some 8 us of the GPU, and 15 of the host.
constexpr double kCopyPaysFrom = 320.0 * 320.0 * 320.0;
constexpr double kCopyPaysFromNs = 24000.0;

inline bool copies_pay(const Problem& problem, const Gpu& gpu) {
  constexpr KernelConfig gather = first_config_of(Family::kMmaGather);
  return problem.products() >= kCopyPaysFrom || expected_ns(gather, problem, gpu) >= kCopyPaysFromNs;
}

// The config expected to be fastest; -1 where none supports the problem (one always does). A config that has not run on
// hardware is taken only where no other can run.
template <int kCount>
int choose(const KernelConfig (&configs)[kCount], const Problem& problem, const Gpu& gpu) {
  const auto ns = [&](const KernelConfig& config) { return expected_ns(config, problem, gpu); };
  const auto runs = [&](const KernelConfig& config) { return supports(config, problem, gpu); };
  const int best = cheapest(
      configs, [&](const KernelConfig& config) { return config.measured && runs(config); }, ns);
  return best >= 0 ? best : cheapest(configs, runs, ns);
}

}  // namespace tileon::sm80
