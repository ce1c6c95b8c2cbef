// CTAs of a cluster that load for each other: their tiles of the output lie side by side, so CTAs of a row share a's
// tile and CTAs of a column b's. Each loads a part of what it shares, for all that do (multicast), so that less is read
// from L2: which is what bounds operands whose lines begin within L2's (docs/dense_on_hopper.md).
#pragma once

#include <cstdint>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/operand_tile.h"

namespace tileon::sm90 {

// A CTA's place in a cluster of kM x kN tiles. A cluster is a column of the grid.
template <int kM, int kN>
struct ClusterPlace {
  static constexpr int tiles_m = kM, tiles_n = kN;
  static constexpr int sharers = kM + kN - 1;  // CTAs that load for this one, itself among them

  static __device__ __forceinline__ int rank() { return static_cast<int>(blockIdx.y); }
  static __device__ __forceinline__ int m() { return kN == 1 ? rank() : rank() % kM; }
  static __device__ __forceinline__ int n() { return kM == 1 ? rank() : rank() / kM; }
  static __device__ __forceinline__ int rank_of(int m, int n) { return n * kM + m; }

  // Bits of the CTAs of this one's row, and of its column.
  static __device__ __forceinline__ uint16_t row() {
    uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < kN; ++n) bits |= 1u << n * kM;
    return static_cast<uint16_t>(bits << m());
  }
  static __device__ __forceinline__ uint16_t column() { return static_cast<uint16_t>(((1u << kM) - 1) << n() * kM); }
};

// A stage is empty when the consumers of all CTAs that this one loads for have released it.
template <typename Place>
class ClusterPipeline : public Pipeline {
 public:
  using Pipeline::Pipeline;

  __device__ __forceinline__ void init_empty(int consumers) const { Pipeline::init_empty(consumers * Place::sharers); }

  // As Pipeline's, to all CTAs that load for this one.
  __device__ __forceinline__ void release(int stage) const {
#pragma unroll
    for (int m = 0; m < Place::tiles_m; ++m) release_of(Place::rank_of(m, Place::n()), stage);
#pragma unroll
    for (int more = 1; more < Place::tiles_n; ++more)
      release_of(Place::rank_of(Place::m(), (Place::n() + more) % Place::tiles_n), stage);
  }

 private:
  __device__ __forceinline__ void release_of(int cta, int stage) const {
    ptx::mbarrier_arrive_cluster(ptx::map_to_cta(empty(stage), cta));
  }
};

// Starts loading this CTA's part of an operand's tile that begins at `mn` and `k`: for the CTAs `ctas`, of which it is
// number `part` of kParts.
template <typename Tile, int kParts>
__device__ __forceinline__ void load_part(const CUtensorMap& map, const OperandMap& operand, uint32_t shared,
                                          uint32_t barrier, int part, uint16_t ctas, int batch, int mn, int k) {
  constexpr int lines = Tile::in_panels.part(kParts).lines;
  static_assert(lines % 8 == 0 && lines * kParts == Tile::in_panels.lines, "the swizzle repeats by eight lines");
  const int inner = Tile::major == Major::kK ? k : mn;
  const int outer = (Tile::major == Major::kK ? mn : k) + part * lines;
#pragma unroll
  for (int panel = 0; panel < Tile::panels; ++panel) {
    if (panel > 0 && panel >= operand.panels) break;
    ptx::tma_load_4d_multicast(shared + panel * Tile::panel_bytes + part * lines * kLineBytes, map, barrier, ctas,
                               inner + panel * Tile::panel, outer, 0, operand.shared ? 0 : batch);
  }
}

}  // namespace tileon::sm90
