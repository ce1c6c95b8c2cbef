// How long a config of the Hopper tables is expected to take for a problem: pure functions, compiled by any C++
// compiler. The dense products of 16 bits have a model of their own, `Costs`; fp8, int8 and float32 go by
// `largest_bound_ns`. A config's numbers stand in its table, those of the GPU in cost_numbers.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/operand_loads.h"

namespace tileon::sm90 {

// ---- dense products of 16 bits ----

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
        sm_share(1 / static_cast<Real>(sms)) {
    const Real a_batch = problem.a.stride_batch == 0 ? 1 : batch, b_batch = problem.b.stride_batch == 0 ? 1 : batch;
    const int64_t row_bytes = problem.n * info(problem.out_dtype).bytes;
    const Real out_bytes = batch * m * static_cast<Real>(row_bytes);
    operand_bytes = kElementBytes * static_cast<Real>(problem.k) * (a_batch * m + b_batch * n);
    const bool sectors = row_bytes % kSectorBytes != 0;
    bytes_with_sector = sectors ? 0 : 2 * out_bytes * gpu.out_sectors;
    bytes[0] = operand_bytes + out_bytes * (sectors ? 1 + gpu.out_sectors : 1) + bytes_with_sector;
    bytes[1] = operand_bytes + out_bytes * (sectors ? 1 + gpu.out_sectors_swapped : 1) + bytes_with_sector;
    const bool has_pairs = takes_vector_stores(problem, 2);
    unaligned[0] = writes_by_tma(operands, problem) ? 0 : has_pairs ? 1 : 1 + gpu.odd_columns;
    unaligned[1] = takes_vector_stores(problem, 4) ? 0 : 1;
    for (int i = 0; i < 4; ++i) {
      clusters[i] = static_cast<Real>(clusters_at_once(1 << i, sms));
      cluster_share[i] = 1 / clusters[i];
    }
  }
};

// Of the multiples of `bytes`, the share that are multiples of `step` too, a power of two.
constexpr float share_at_multiples(int64_t bytes, int64_t step) {
  const int64_t common = bytes & -bytes;
  return common < step ? static_cast<float>(common) / static_cast<float>(step) : 1.0f;
}
static_assert(share_at_multiples(104 * kElementBytes, kLineBytes) == 0.125f &&
              share_at_multiples(192 * kElementBytes, kLineBytes) == 1);

// The numbers of a table, an array for each, so that the compiler works out the costs of several configs at once. What
// a cost would divide by is inverted; a choice between two numbers of the work is a weight, 0 or 1, of the second one.
template <typename Real, int kCount>
struct CostTable {
  template <typename T>
  using OfConfigs = std::array<T, kCount>;

  OfConfigs<Real> staged{};       // the kernel stages its sums: it is not persistent
  OfConfigs<Real> slab{};         // a persistent kernel that sends what TMA cannot write through a slab of float32
  OfConfigs<Real> swapped{};      // a is the operand of any width (kSwapAb)
  OfConfigs<int8_t> log2_ctas{};  // of a cluster, which split a tile's k or have tiles side by side
  OfConfigs<Real> tile_m{}, tile_n{}, panels_m{}, panels_n{}, ctas{};
  OfConfigs<Real> side_by_side{};                   // tiles of a cluster
  OfConfigs<Real> more_m{}, more_n{};               // a's and b's tiles of a cluster, times cluster_l2
  OfConfigs<Real> part_m{}, part_n{};               // 1 / cluster_m, 1 / cluster_n
  OfConfigs<Real> step_k{};                         // a block of k of each split
  OfConfigs<Real> share_m{}, share_n{}, share_k{};  // 1 / rows of a cluster, 1 / its columns, 1 / step_k
  OfConfigs<Real> area_share{}, cta_share{};        // 1 / (tile_m * tile_n), 1 / ctas
  // Shares of the mn-major tiles that begin at a multiple of 16, 32, 64 and 128 bytes, as the first one does.
  OfConfigs<Real> begins_m[4]{}, begins_n[4]{};
  OfConfigs<Real> slots{}, slot_share{}, one_slot{};  // CTAs that an SM holds, 1 / slots, and 1
  OfConfigs<Real> start{}, per_tile{}, unaligned_tile{}, per_k{}, per_k_mn{};
  OfConfigs<Real> memory_ns{}, memory_ns_a_cta{}, l2_ns_a_cta{};  // for a byte

  constexpr CostTable(const KernelConfig (&configs)[kCount], const GpuNumbers& gpu) {
    for (int i = 0; i < kCount; ++i) {
      const TileConfig& tile = configs[i].tile;
      const CostNumbers& of = configs[i].cost;
      staged[i] = !persistent(tile), slab[i] = persistent(tile) && !has_activated_store(tile);
      swapped[i] = tile.family == Family::kSwapAb;
      slots[i] = configs[i].ctas_per_sm, slot_share[i] = 1 / slots[i], one_slot[i] = 1;
      const int of_cluster = configs[i].splits * tile.cluster_ctas();
      log2_ctas[i] = static_cast<int8_t>(of_cluster == 8 ? 3 : of_cluster / 2);
      tile_m[i] = tile.tile_m, tile_n[i] = tile.tile_n, ctas[i] = of_cluster;
      const Real more = tile.cluster_ctas() > 1 ? gpu.cluster_l2 : 1;
      side_by_side[i] = tile.cluster_ctas(), more_m[i] = tile.cluster_m * more, more_n[i] = tile.cluster_n * more;
      part_m[i] = 1 / Real(tile.cluster_m), part_n[i] = 1 / Real(tile.cluster_n);
      step_k[i] = tile.block_k * configs[i].splits;
      panels_m[i] = (tile.tile_m + kPanel - 1) / kPanel, panels_n[i] = (tile.tile_n + kPanel - 1) / kPanel;
      share_m[i] = part_m[i] / tile_m[i], share_n[i] = part_n[i] / tile_n[i], share_k[i] = 1 / step_k[i];
      area_share[i] = 1 / (tile_m[i] * tile_n[i]), cta_share[i] = 1 / ctas[i];
      for (int log2 = 0; log2 < 4; ++log2) {
        begins_m[log2][i] = share_at_multiples(tile.tile_m * kElementBytes, kTmaAlignment << log2);
        begins_n[log2][i] = share_at_multiples(tile.tile_n * kElementBytes, kTmaAlignment << log2);
      }
      start[i] = of.start * gpu.start, per_tile[i] = of.per_tile * gpu.tile;
      unaligned_tile[i] = of.unaligned_tile * gpu.tile;
      per_k[i] = of.per_k * gpu.k, per_k_mn[i] = of.per_k_mn * gpu.k;
      memory_ns[i] = 1 / (of.memory_bytes * gpu.memory_bytes);
      memory_ns_a_cta[i] = 1 / (of.memory_bytes_a_cta * gpu.memory_bytes_a_cta);
      l2_ns_a_cta[i] = 1 / (of.l2_bytes_a_tile * gpu.l2_bytes_a_tile * Real(configs[i].splits));
    }
  }
};

// ceil(count / size), where share = 1 / size. The nearest miss is half a `share`: exact below
// 2^20 of float, 2^40 of double; above it a tile more or less is nothing.
template <typename Real>
Real ceil_by_share(Real count, Real share) {
  constexpr Real to_integer = 3 / std::numeric_limits<Real>::epsilon() / 2;  // a sum with it is rounded to an integer
  return (count * share + (Real{0.5} - Real{0.5} * share) + to_integer) - to_integer;
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

// What each config's time is made of, in nanoseconds: its start, and four parts that run at once: the tensor cores,
// memory, and L2, to each SM and to all of them. In each wave of tiles the longest part hides the others but for a
// share. Memory and L2 serve a wave by its share of the tiles: in a last wave of few tiles hardly anything hides the
// products, and in those before it nothing waits for their turn.
template <typename Real, int kCount>
struct Costs {
  std::array<Real, kCount> waves;  // times an SM's time for one tile
  std::array<Real, kCount> start, compute, memory, delivery, l2;
  std::array<Real, kCount> ns;  // in all

  Costs(const CostTable<Real, kCount>& table, const DenseWork<Real>& work) {
    std::array<Real, kCount> at_once, share;  // clusters of a config that run together, a CTA to an SM, and 1 / at_once
    for (int i = 0; i < kCount; ++i) at_once[i] = work.clusters[table.log2_ctas[i]];
    for (int i = 0; i < kCount; ++i) share[i] = work.cluster_share[table.log2_ctas[i]];
    const GpuNumbers& gpu = work.gpu;
    const OperandLoads<Real>&a = work.a, &b = work.b;
    const auto& a_units = a.k_major ? table.tile_m : table.panels_m;
    const auto& b_units = b.k_major ? table.tile_n : table.panels_n;
    const auto& begins_a = table.begins_m[a.log2_step];
    const auto& begins_b = table.begins_n[b.log2_step];
    const auto& sectors_a = table.begins_m[1];
    const auto& sectors_b = table.begins_n[1];
    const Real mn_major[2] = {b.k_major ? Real{0} : Real{1}, a.k_major ? Real{0} : Real{1}};
    // CTAs that an SM holds together are one wave; but where an operand is narrow, its lines are so short that TMA's
    // rate is the limit, and the CTAs take turns.
    const bool together = a.narrow_lines + b.narrow_lines == 0;
    const auto& slots = together ? table.slots : table.one_slot;
    const auto& slot_share = together ? table.slot_share : table.one_slot;
    const Real batch_share = 1 / work.batch;
    const Real hot_ns = (a.narrow_lines + b.narrow_lines) * gpu.hot_line_ns;
    const Real l2_ns = 1 / static_cast<Real>(gpu.l2_bytes);
    for (int i = 0; i < kCount; ++i) {
      const Real tiles_m = ceil_by_share(work.m, table.share_m[i]);  // of clusters
      const Real tiles_n = ceil_by_share(work.n, table.share_n[i]);
      const Real share_m = 1 / tiles_m, share_n = 1 / tiles_n;
      const Real tiles = tiles_m * tiles_n * work.batch, tile_share = share_m * share_n * batch_share;
      const Real sms_used = smaller(Real{1}, tiles * table.ctas[i] * work.sm_share);

      // Waves: full ones, and a last one, of whose tiles an SM has so many in the mean, and so many at most.
      const Real in_wave = slots[i] * at_once[i];
      const Real full = ceil_by_share(tiles + 1, slot_share[i] * share[i]) - 1;
      const Real in_last = tiles - full * in_wave;
      const Real mean = in_last * share[i], most = ceil_by_share(in_last, share[i]);
      const Real last = smaller(most, larger(Real{1}, mean + gpu.uneven_waves * (most - mean)));
      waves[i] = full * slots[i] + last;

      // A tile.
      const Real whole_k = ceil_by_share(work.k, table.share_k[i]) * table.step_k[i];
      const Real short_k = whole_k - work.k;
      const Real of_k = either(either(table.swapped[i], mn_major), {table.per_k[i], table.per_k_mn[i]}) * whole_k;
      const Real stored = smaller(work.m, table.tile_m[i]) * smaller(work.n, table.tile_n[i]) * table.area_share[i];
      const Real tile =
          table.per_tile[i] * (1 - gpu.stored_share * (1 - stored)) +
          table.unaligned_tile[i] * (1 - table.slab[i] * (1 - stored)) * either(table.staged[i], work.unaligned) +
          of_k * (1 - gpu.idle_sms * (1 - sms_used));
      const Real own_bytes = work.operand_bytes * tile_share * table.cta_share[i] * table.memory_ns_a_cta[i];
      const Real units_a = smaller(a_units[i], a.max_units), units_b = smaller(b_units[i], b.max_units);
      const Real bytes_a = units_a * (a.bytes + short_k * a.short_bytes);
      const Real bytes_b = units_b * (b.bytes + short_k * b.short_bytes);
      // Shares of the tiles that begin with a line and with a sector, if the first does.
      const Real line_a = larger(begins_a[i], share_m), sector_a = larger(sectors_a[i], share_m);
      const Real line_b = larger(begins_b[i], share_n), sector_b = larger(sectors_b[i], share_n);
      const Real sm_a =
          units_a * (a.sm_unit - line_a * a.sm_unit_line - sector_a * a.sm_unit_sector + short_k * a.sm_short) +
          a.sm_tile - line_a * a.sm_tile_line;
      const Real sm_b =
          units_b * (b.sm_unit - line_b * b.sm_unit_line - sector_b * b.sm_unit_sector + short_k * b.sm_short) +
          b.sm_tile - line_b * b.sm_tile_line;
      const Real loads = (sm_a * table.part_n[i] + sm_b * table.part_m[i]) * table.l2_ns_a_cta[i];

      // All tiles.
      const Real all_bytes =
          (either(table.swapped[i], work.bytes) - sector_b * work.bytes_with_sector) * table.memory_ns[i];
      const Real more_a = a.l2_more - line_a * a.l2_more_line - sector_a * a.l2_more_sector;
      const Real more_b = b.l2_more - line_b * b.l2_more_line - sector_b * b.l2_more_sector;
      const Real l2_a = bytes_a * (table.side_by_side[i] + more_a * table.more_m[i]);
      const Real l2_b = bytes_b * (table.side_by_side[i] + more_b * table.more_n[i]);
      l2[i] = tiles * ((l2_a + l2_b) * l2_ns + table.side_by_side[i] * hot_ns);

      const Real of_full = in_wave * tile_share, of_last = in_last * tile_share;
      const Real longest =
          full * longest_of(slots[i] * tile, of_full * all_bytes + slots[i] * own_bytes, slots[i] * loads,
                            of_full * l2[i]) +
          longest_of(last * tile, of_last * all_bytes + last * own_bytes, last * loads, of_last * l2[i]);
      start[i] = table.start[i] + gpu.full_gpu_ns * sms_used;
      compute[i] = waves[i] * tile;
      memory[i] = all_bytes + waves[i] * own_bytes;
      delivery[i] = waves[i] * loads;
      ns[i] = start[i] + longest + gpu.not_hidden * (compute[i] + memory[i] + delivery[i] + l2[i] - longest);
    }
  }
};

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

// Whether the sums are finished by one of the formulas that every kernel applies while it stores them
// (epilogue/ops.cuh).
inline bool is_cheap_epilogue(const Problem& problem) {
  return problem.pre_activation == nullptr && is_cheap(problem.epilogue);
}

// Nanoseconds that a consumer takes for an element of a tile of fp8 whose sums go through shared memory: for any
// formula but the cheap ones, and where TMA cannot write the output. On an H200 a tile of 128 x 192, of two consumers,
// took 12 to 17 us, one of 64 x 64 took 5, and the larger one took 5 of an output of one column. Tiles of three
// consumers were not timed, and count as those of two.
constexpr double kStagedNs = 1.25;

inline double staged_store_ns(const KernelConfig& config, const Problem& problem, int sm_count) {
  if (is_cheap_epilogue(problem) && writes_by_tma(config.operands, problem)) return 0;
  const TileConfig& tile = config.tile;
  const double columns = 0.4 * tile.tile_n + 0.6 * std::min<double>(tile.tile_n, static_cast<double>(problem.n));
  return kStagedNs * waves_of(config, problem, sm_count) * tile.tile_m * columns / std::min(tile.consumers, 2);
}

}  // namespace tileon::sm90
