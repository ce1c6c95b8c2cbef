// How long a config of the Hopper tables is expected to take for a problem: pure functions, compiled by any C++
// compiler. The dense products of 16 bits have a model of their own, `Costs`; fp8, int8 and float32 go by
// `largest_bound_ns`. A config's numbers stand in its table (side by side, cost_table.h), those of the GPU in
// cost_numbers.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/cost_table.h"
#include "cuda/sm90/heuristics/operand_loads.h"

namespace tileon::sm90 {

// ---- dense products of 16 bits ----

// How often a persistent kernel's tile counts unaligned_tile.
template <typename Real>
Real unaligned_stores(Operands operands, const Problem& problem, const GpuNumbers& gpu) {
  if (writes_by_tma(operands, problem)) return 0;
  return takes_vector_stores(problem, 2) ? 1 : 1 + gpu.odd_columns;
}

// What is worked out once for a problem.
template <typename Real>
struct DenseWork {
  const GpuNumbers& gpu;
  TmaAccesses access;
  OperandLoads<Real> a, b;
  Real m, n, batch;  // at least 1
  Real k;
  Real operand_bytes;
  // Bytes of both operands and the output, each once: of kernels as they are, and of swapped ones; and what is saved
  // where the output's tiles begin with its sectors.
  Real bytes[2], bytes_with_sector;
  Real unaligned[2];  // factors of unaligned_tile: of persistent kernels, and of kernels that stage their sums
  Real sm_share;      // 1 / SMs
  Real clusters[4], cluster_share[4];  // clusters at once, by log2 of their CTAs, and 1 / clusters

  DenseWork(Operands operands, const Problem& problem, int sms, const GpuNumbers& numbers)
      : gpu(numbers),
        access(problem, kElementBytes),
        a(problem.a, access.a, problem.m, problem.k, numbers),
        b(problem.b, access.b, problem.n, problem.k, numbers),
        m(static_cast<Real>(std::max<int64_t>(problem.m, 1))),
        n(static_cast<Real>(std::max<int64_t>(problem.n, 1))),
        batch(static_cast<Real>(problem.batch)),
        k(static_cast<Real>(problem.k)),
        operand_bytes(sm90::operand_bytes<Real>(problem, kElementBytes)),
        sm_share(1 / static_cast<Real>(sms)) {
    const int64_t row_bytes = problem.n * info(problem.out_dtype).bytes;
    const Real out_bytes = batch * m * static_cast<Real>(row_bytes);
    const bool sectors = row_bytes % kSectorBytes != 0;
    bytes_with_sector = sectors ? 0 : 2 * out_bytes * gpu.out_sectors;
    bytes[0] = operand_bytes + out_bytes * (sectors ? 1 + gpu.out_sectors : 1) + bytes_with_sector;
    bytes[1] = operand_bytes + out_bytes * (sectors ? 1 + gpu.out_sectors_swapped : 1) + bytes_with_sector;
    unaligned[0] = unaligned_stores<Real>(operands, problem, gpu);
    unaligned[1] = takes_vector_stores(problem, 4) ? 0 : 1;
    for (int i = 0; i < 4; ++i) {
      clusters[i] = static_cast<Real>(clusters_at_once(1 << i, sms));
      cluster_share[i] = 1 / clusters[i];
    }
  }
};

// count / size, rounded up and down, where share = 1 / size and `rounding` is rounding_of(share): exact below 2^20 of
// float, 2^40 of double; above it a tile more or less is nothing.
template <typename Real>
constexpr Real kToInteger = 3 / std::numeric_limits<Real>::epsilon() / 2;  // a sum with it is rounded to an integer
template <typename Real>
Real ceil_by_share(Real count, Real share, Real rounding) {
  return (count * share + rounding + kToInteger<Real>)-kToInteger<Real>;
}
template <typename Real>
Real floor_by_share(Real count, Real share, Real rounding) {
  return (count * share - rounding + kToInteger<Real>)-kToInteger<Real>;
}

// std::max and std::min are references, of which g++ makes branches and no vector instructions.
template <typename Real>
Real larger(Real x, Real y) {
  return x > y ? x : y;
}
template <typename Real>
Real smaller(Real x, Real y) {
  return x < y ? x : y;
}

// The second of two numbers where `weight` is 1, the first where it is 0.
template <typename Real>
Real either(Real weight, const std::type_identity_t<Real> (&of)[2]) {
  return of[0] + weight * (of[1] - of[0]);
}

// The largest of what runs at once.
template <typename Real>
Real longest_of(Real compute, Real memory, Real delivery, Real l2) {
  return larger(larger(compute, memory), larger(delivery, l2));
}

// What the configs have of m and a, or of n and b.
template <typename Real, int kCount>
struct AxisCosts {
  OfConfigs<Real, kCount> tiles, share;  // tiles of clusters, and 1 / tiles
  OfConfigs<Real, kCount> sm;            // bytes of a tile, each as often as an SM takes for it
  OfConfigs<Real, kCount> l2;            // bytes that L2 hands to a cluster

  // `short_k` is what whole blocks of k have beyond the operand's.
  AxisCosts(const AxisTable<Real, kCount>& axis, const OfConfigs<Real, kCount>& side_by_side, Real size,
            const OperandLoads<Real>& operand, const OfConfigs<Real, kCount>& short_k) {
    for (int i = 0; i < kCount; ++i) tiles[i] = ceil_by_share(size, axis.share[i], axis.rounding[i]);
    for (int i = 0; i < kCount; ++i) share[i] = 1 / tiles[i];
    if (operand.k_major) {
      for (int i = 0; i < kCount; ++i) {
        const Real rows = smaller(axis.tile[i], operand.max_units);
        sm[i] = rows * (operand.sm_unit + short_k[i] * operand.sm_short) * axis.part[i];
        l2[i] = rows * (operand.bytes + short_k[i] * operand.short_bytes) *
                (side_by_side[i] + operand.l2_more * axis.more[i]);
      }
      return;
    }
    const OfConfigs<Real, kCount>&begins = axis.begins[operand.log2_step], &sectors = axis.begins[1];
    for (int i = 0; i < kCount; ++i) {
      const Real panels = smaller(axis.panels[i], operand.max_units);
      // Shares of the tiles that begin with a line and with a sector, if the first does.
      const Real line = larger(begins[i], share[i]), sector = larger(sectors[i], share[i]);
      const Real panel = operand.sm_unit - line * operand.sm_unit_line - sector * operand.sm_unit_sector;
      sm[i] = (panels * (panel + short_k[i] * operand.sm_short) + operand.sm_tile - line * operand.sm_tile_line) *
              axis.part[i];
      const Real more = operand.l2_more - line * operand.l2_more_line - sector * operand.l2_more_sector;
      l2[i] = panels * operand.bytes * (side_by_side[i] + more * axis.more[i]);
    }
  }
};

// What each config's time is made of, in nanoseconds: its start, and four parts that run at once: the tensor cores,
// memory, and L2, to each SM and to all of them. In each wave of tiles the longest part hides the others but for a
// share. Memory and L2 serve a wave by its share of the tiles: in a last wave of few tiles hardly anything hides the
// products, and in those before it nothing waits for their turn.
template <typename Real, int kCount>
struct Costs {
  OfConfigs<Real, kCount> waves;  // times an SM's time for one tile
  OfConfigs<Real, kCount> start, compute, memory, delivery, l2;
  OfConfigs<Real, kCount> ns;  // in all

  Costs(const CostTable<Real, kCount>& table, const DenseWork<Real>& work) {
    const GpuNumbers& gpu = work.gpu;
    const OperandLoads<Real>&a = work.a, &b = work.b;
    OfConfigs<Real, kCount> whole_k, short_k;  // k in whole blocks, and what of it lies beyond the operands' end
    for (int i = 0; i < kCount; ++i) {
      whole_k[i] = ceil_by_share(work.k, table.share_k[i], table.round_k[i]) * table.step_k[i];
      short_k[i] = whole_k[i] - work.k;
    }
    const AxisCosts<Real, kCount> of_m(table.m, table.side_by_side, work.m, a, short_k);
    const AxisCosts<Real, kCount> of_n(table.n, table.side_by_side, work.n, b, short_k);
    OfConfigs<Real, kCount> at_once;  // clusters of a config that run together, a CTA to an SM
    for (int i = 0; i < kCount; ++i) at_once[i] = work.clusters[table.log2_ctas[i]];
    // CTAs that an SM holds together are one wave; but where an operand is narrow, its lines are so short that TMA's
    // rate is the limit, and the CTAs take turns.
    const bool together = a.narrow_lines + b.narrow_lines == 0;
    const auto& slots = together ? table.slots : table.one_slot;
    const auto& slot_share = together ? table.slot_share : table.one_slot;
    const auto& per_k = table.per_k[a.k_major][b.k_major];
    const auto& sectors = table.n.begins[1];
    const Real batch_share = 1 / work.batch;
    const Real hot_ns = (a.narrow_lines + b.narrow_lines) * gpu.hot_line_ns;
    const Real l2_ns = 1 / static_cast<Real>(gpu.l2_bytes);
    const Real alone = 1 - gpu.idle_sms, one = 1;
    for (int i = 0; i < kCount; ++i) {
      const Real tiles = of_m.tiles[i] * of_n.tiles[i] * work.batch;
      const Real tile_share = of_m.share[i] * of_n.share[i] * batch_share;
      const Real sms_used = smaller(tiles * table.ctas[i] * work.sm_share, one);

      // Waves: full ones, and a last one, of whose tiles an SM has so many in the mean, and so many at most.
      const Real share = 1 / at_once[i], wave_share = slot_share[i] * share;
      const Real full = floor_by_share(tiles, wave_share, rounding_of(wave_share));
      const Real in_last = tiles - full * slots[i] * at_once[i];
      const Real mean = in_last * share, most = ceil_by_share(in_last, share, rounding_of(share));
      const Real last = smaller(most, larger(mean + gpu.uneven_waves * (most - mean), one));
      const Real before = full * slots[i];
      waves[i] = before + last;

      // A tile.
      const Real stored = smaller(work.m, table.m.tile[i]) * smaller(work.n, table.n.tile[i]) * table.area_share[i];
      const Real tile = table.per_tile[i] + table.per_stored[i] * stored +
                        table.unaligned_tile[i] * either(table.staged[i], work.unaligned) +
                        per_k[i] * whole_k[i] * (alone + gpu.idle_sms * sms_used);
      const Real own_bytes = work.operand_bytes * tile_share * table.own_memory_ns[i];
      const Real loads = (of_m.sm[i] + of_n.sm[i]) * table.l2_ns_a_cta[i];
      const Real l2_tile = (of_m.l2[i] + of_n.l2[i]) * l2_ns + table.side_by_side[i] * hot_ns;

      // All tiles.
      const Real sector = larger(sectors[i], of_n.share[i]);  // share of them that begin with one, if the first does
      const Real all_bytes =
          (either(table.swapped[i], work.bytes) - sector * work.bytes_with_sector) * table.memory_ns[i];
      const Real bytes_a_tile = all_bytes * tile_share;
      const Real longest =
          before * longest_of(tile, at_once[i] * bytes_a_tile + own_bytes, loads, at_once[i] * l2_tile) +
          longest_of(last * tile, in_last * bytes_a_tile + last * own_bytes, last * loads, in_last * l2_tile);
      start[i] = table.start[i] + gpu.full_gpu_ns * sms_used;
      compute[i] = waves[i] * tile;
      memory[i] = all_bytes + waves[i] * own_bytes;
      delivery[i] = waves[i] * loads;
      l2[i] = tiles * l2_tile;
      ns[i] = start[i] + longest + gpu.not_hidden * (compute[i] + memory[i] + delivery[i] + l2[i] - longest);
    }
  }
};

// ---- any activation ----

// Nanoseconds that a thread takes longer for each of its sums than with a cheap formula where ActivatedStore finishes
// them (epilogue/tma_store.cuh), four at a time in a crowded kernel, and where a cluster's CTAs do. Of gelu, the
// longest formula, on an H100: 24 to 36, 43 to 52 and 42 to 85 over five products and all configs.
constexpr double kActivatedNs = 30.0, kActivatedCrowdedNs = 48.0, kActivatedSplitNs = 80.0;

// What a config takes longer so for these operands, of whose tiles a CTA has `waves`. A ping-pong kernel finishes a
// tile behind the products of the next one.
inline double activated_store_ns(const KernelConfig& config, Operands operands, const Problem& problem, double waves) {
  const TileConfig& tile = config.tile;
  const double sums = sums_of_thread(tile);
  if (!persistent(tile)) return waves * kActivatedSplitNs * sums / config.splits;
  const double ns = sums * (is_crowded(stored_sums(operands), tile) ? kActivatedCrowdedNs : kActivatedNs);
  if (tile.family != Family::kPingpong) return waves * ns;
  const double products_ns = config.cost.per_k * static_cast<double>(problem.k);
  return ns + std::max(waves - 1, 0.0) * std::max((ns - products_ns) / 2, 0.0);
}

// Nanoseconds that a consumer takes for an element of a tile that is staged: of outputs of other dtypes and strides,
// and of formulas for which there are no registers. Of fp8, on an H200 a tile of 128 x 192, of two consumers, took 12
// to 17 us, one of 64 x 64 took 5, and the larger one took 5 of an output of one column. Tiles of three consumers were
// not timed, and count as those of two.
constexpr double kStagedNs = 1.25;

inline double staged_store_ns(const KernelConfig& config, const Problem& problem, double waves) {
  const TileConfig& tile = config.tile;
  const double columns = 0.4 * tile.tile_n + 0.6 * std::min<double>(tile.tile_n, static_cast<double>(problem.n));
  return kStagedNs * waves * tile.tile_m * columns / std::min(tile.consumers, 2);
}

// What an activation that is not cheap takes. A kernel that has no registers for the formula beside its sums stages
// them.
inline double any_activation_ns(const KernelConfig& config, Operands operands, const Problem& problem, double waves) {
  const bool is_staged = persistent(config.tile) && !has_activated_store(stored_sums(operands), config.tile);
  return is_staged ? staged_store_ns(config, problem, waves) : activated_store_ns(config, operands, problem, waves);
}

// ---- fp8, int8 and float32 ----

// How many of L2's lines a line of a tile takes: two, where the operand's lines do not begin where L2's do.
inline int lines_of_l2(const Matrix& operand, const TmaAccess& access, int64_t mn, int64_t k) {
  const int64_t outer = access.major == Major::kK ? mn : k;
  const bool aligned = reinterpret_cast<uintptr_t>(operand.data) % kLineBytes == 0 &&
                       (outer == 1 || access.line_bytes % kLineBytes == 0);
  return aligned ? 1 : 2;
}

// What the bounds of every config depend on.
struct Work {
  double k;
  double bytes;  // of both operands and the output, each once
  TmaAccesses access;
  int a_lines;  // lines_of_l2
  int b_lines;

  // `element_bytes` are the operands', as multiplied. k is rounded up to whole words of 16 bits, as the numbers of 8
  // bits were set.
  Work(const Problem& problem, int element_bytes)
      : k(static_cast<double>((problem.k * element_bytes + 1) / 2 * 2 / element_bytes)),
        access(problem, element_bytes),
        a_lines(lines_of_l2(problem.a, access.a, problem.m, problem.k)),
        b_lines(lines_of_l2(problem.b, access.b, problem.n, problem.k)) {
    const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
    const double batch = static_cast<double>(problem.batch);
    const double a_batch = problem.a.stride_batch == 0 ? 1 : batch, b_batch = problem.b.stride_batch == 0 ? 1 : batch;
    const double a_bytes = a_batch * m * k * element_bytes, b_bytes = b_batch * k * n * element_bytes;
    bytes = a_bytes + b_bytes + batch * m * n * info(problem.out_dtype).bytes;
  }
};

// What L2 hands to all SMs at most, in bytes of the lines that the tiles take as they are counted here. Not a measured
// rate: set by hand.
constexpr double kLargestL2BytesPerNs = 20000.0;

// How many tiles a cluster of the config takes, one after the other; a cluster is a CTA where k is not split.
inline int waves_of(const KernelConfig& config, const Problem& problem, int sm_count) {
  const int64_t tiles = tile_order(config.tile, problem.m, problem.n).count() * problem.batch;
  return ceil_divide(tiles, clusters_at_once(config.splits * config.tile.cluster_ctas(), sm_count));
}

// The start, and the largest of three bounds: tensor cores, memory and L2.
inline double largest_bound_ns(const KernelConfig& config, const Problem& problem, const Work& work, int sm_count) {
  const TileConfig& tile = config.tile;
  const int64_t tiles = tile_order(tile, problem.m, problem.n).count() * problem.batch;
  const double compute =
      waves_of(config, problem, sm_count) * (config.cost.per_tile + static_cast<double>(config.cost.per_k) * work.k);
  const double memory = work.bytes / config.cost.memory_bytes;
  const double per_block =
      operand_bytes(tile.tile_m, tile.block_k, work.access.a.major, tile.element_bytes) * work.a_lines +
      operand_bytes(tile.tile_n, tile.block_k, work.access.b.major, tile.element_bytes) * work.b_lines;
  const double delivery = static_cast<double>(tiles) * per_block / tile.block_k * work.k / kLargestL2BytesPerNs;
  return config.cost.start + std::max({compute, memory, delivery});
}

// What a config takes longer to store the output than where TMA writes what a cheap formula gives.
inline double store_ns(const KernelConfig& config, const Problem& problem, int sm_count) {
  if (is_cheap_epilogue(problem) && writes_by_tma(config.operands, problem)) return 0;
  const double waves = waves_of(config, problem, sm_count);
  if (takes_activated_store(config.operands, config.tile, problem))
    return activated_store_ns(config, config.operands, problem, waves);
  return staged_store_ns(config, problem, waves);
}

}  // namespace tileon::sm90
