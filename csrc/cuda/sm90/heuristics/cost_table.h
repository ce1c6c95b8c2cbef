// What the cost model of the Hopper choice knows of a table of configs: the numbers of all of them side by side, so
// that the compiler works out the costs of several configs at once. The model is cost.h.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/operand_loads.h"

namespace tileon::sm90 {

template <typename Real, int kCount>
using OfConfigs = std::array<Real, kCount>;

// Of the multiples of `bytes`, the share that are multiples of `step` too, a power of two.
constexpr float share_at_multiples(int64_t bytes, int64_t step) {
  const int64_t common = bytes & -bytes;
  return common < step ? static_cast<float>(common) / static_cast<float>(step) : 1.0f;
}
static_assert(share_at_multiples(104 * kElementBytes, kLineBytes) == 0.125f &&
              share_at_multiples(192 * kElementBytes, kLineBytes) == 1);

// A half less half a share: what a count in tiles is raised by, to be rounded up by rounding to the nearest integer, or
// lowered by, to be rounded down. `share` is 1 / the tile's size, and the nearest miss half a `share`.
template <typename Real>
constexpr Real rounding_of(Real share) {
  return Real{0.5} - Real{0.5} * share;
}

// What the tiles of a table have along m, of a, or along n, of b.
template <typename Real, int kCount>
struct AxisTable {
  OfConfigs<Real, kCount> tile{}, panels{};     // rows, or columns, of a tile
  OfConfigs<Real, kCount> share{}, rounding{};  // 1 / those of a cluster
  OfConfigs<Real, kCount> more{};               // tiles of the operand that a cluster loads, times cluster_l2
  OfConfigs<Real, kCount> part{};               // 1 / CTAs that load a tile of the operand together
  // Shares of the mn-major tiles that begin at a multiple of 16, 32, 64 and 128 bytes, as the first one does.
  OfConfigs<Real, kCount> begins[4]{};

  constexpr void set(int i, int size, int in_cluster, int loaded_by, const GpuNumbers& gpu) {
    tile[i] = size, panels[i] = (size + kPanel - 1) / kPanel;
    share[i] = 1 / Real(in_cluster * size), rounding[i] = rounding_of(share[i]);
    more[i] = in_cluster * (in_cluster * loaded_by > 1 ? gpu.cluster_l2 : 1);
    part[i] = 1 / Real(loaded_by);
    for (int log2 = 0; log2 < 4; ++log2)
      begins[log2][i] = share_at_multiples(size * kElementBytes, kTmaAlignment << log2);
  }
};

// The numbers of a table. What a cost would divide by is inverted; a choice between two numbers of the work is a
// weight, 0 or 1, of the second one.
template <typename Real, int kCount>
struct CostTable {
  using Numbers = OfConfigs<Real, kCount>;

  AxisTable<Real, kCount> m, n;
  Numbers staged{};                           // the kernel stages its sums: it is not persistent
  Numbers swapped{};                          // a is the operand of any width (kSwapAb)
  OfConfigs<int, kCount> log2_ctas{};         // of a cluster, which split a tile's k or have tiles side by side
  Numbers ctas{}, side_by_side{};             // CTAs of a cluster, and their tiles
  Numbers step_k{}, share_k{}, round_k{};     // a block of k of each split, and 1 / step_k
  Numbers area_share{};                       // 1 / (tile_m * tile_n)
  Numbers slots{}, slot_share{}, one_slot{};  // CTAs that an SM holds, 1 / slots, and 1
  Numbers start{};
  Numbers per_tile{}, per_stored{};  // per_tile, and what of it goes by the share of the tile that is stored
  Numbers unaligned_tile{};
  Numbers per_k[2][2]{};                                // by whether a and b are k-major: per_k or per_k_mn
  Numbers memory_ns{}, own_memory_ns{}, l2_ns_a_cta{};  // for a byte: of all, of a cluster's operands, of a CTA's

  constexpr CostTable(const KernelConfig (&configs)[kCount], const GpuNumbers& gpu) {
    for (int i = 0; i < kCount; ++i) {
      const TileConfig& tile = configs[i].tile;
      const CostNumbers& of = configs[i].cost;
      m.set(i, tile.tile_m, tile.cluster_m, tile.cluster_n, gpu);
      n.set(i, tile.tile_n, tile.cluster_n, tile.cluster_m, gpu);
      staged[i] = !persistent(tile), swapped[i] = tile.family == Family::kSwapAb;
      slots[i] = configs[i].ctas_per_sm, slot_share[i] = 1 / slots[i], one_slot[i] = 1;
      const int of_cluster = configs[i].splits * tile.cluster_ctas();
      log2_ctas[i] = of_cluster == 8 ? 3 : of_cluster / 2;
      ctas[i] = of_cluster, side_by_side[i] = tile.cluster_ctas();
      step_k[i] = tile.block_k * configs[i].splits, share_k[i] = 1 / step_k[i], round_k[i] = rounding_of(share_k[i]);
      area_share[i] = 1 / Real(tile.tile_m * tile.tile_n);
      start[i] = of.start * gpu.start;
      per_stored[i] = of.per_tile * gpu.tile * gpu.stored_share;
      per_tile[i] = of.per_tile * gpu.tile - per_stored[i];
      unaligned_tile[i] = of.unaligned_tile * gpu.tile;
      for (const bool a_k_major : {false, true})
        for (const bool b_k_major : {false, true}) {
          const bool k_major = tile.family == Family::kSwapAb ? a_k_major : b_k_major;
          per_k[a_k_major][b_k_major][i] = (k_major ? of.per_k : of.per_k_mn) * gpu.k;
        }
      memory_ns[i] = 1 / (of.memory_bytes * gpu.memory_bytes);
      own_memory_ns[i] = 1 / (of.memory_bytes_a_cta * gpu.memory_bytes_a_cta * ctas[i]);
      l2_ns_a_cta[i] = 1 / (of.l2_bytes_a_tile * gpu.l2_bytes_a_tile * Real(configs[i].splits));
    }
  }
};

}  // namespace tileon::sm90
