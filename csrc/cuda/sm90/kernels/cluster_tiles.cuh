// The Scheduler of kernels that compute one tile per cluster. The cluster's CTAs split k. Warp w of every CTA has the
// sums of the same rows of wgmma, and CTA w % splits finishes them: warps w of the other CTAs send it theirs, straight
// into its shared memory, where the pipeline was. So a sum lies in the same lane and register everywhere, no memory is
// fenced, and these rows are stored as any kernel stores a tile's. For few tiles with a long k.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// A CTA has tile `first` of GroupedTiles, and no other, for its `step` is the number of tiles.
template <typename Kernel>
class ClusteredTiles : public GroupedTiles<Kernel> {
  using GroupedTiles<Kernel>::params_;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && std::is_same_v<typename Kernel::Sum, float>);
  static_assert(kReceivedBegin + decoding_warps(Kernel::config) * 8 <= kExponentsBegin);

 public:
  static constexpr bool shares_tiles = true;

  using GroupedTiles<Kernel>::GroupedTiles;

  __device__ __forceinline__ TilePosition next_position() const { return this->position(); }  // there is none

  // The tile's blocks of k that this CTA multiplies; the last CTA has fewer.
  __device__ __forceinline__ int first_block() const { return rank() * params_.blocks_per_split; }
  __device__ __forceinline__ int end_block() const {
    return min(first_block() + params_.blocks_per_split, params_.k_blocks);
  }
  __device__ __forceinline__ int blocks() const { return end_block() - first_block(); }

  // By each of the consumers' warps, with its sums. True: they are the tile's now, and this warp stores them; false:
  // another CTA's warp has them.
  __device__ __forceinline__ bool finish_sums(const typename Kernel::Shared& shared, int,
                                              typename Kernel::Sums& sums) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, owner = warp % params_.splits;
    const uint32_t received = shared.address + kReceivedBegin + warp * 8;
    const bool is_owner = owner == rank();
    if (is_owner && ptx::elect_one()) {
      ptx::mbarrier_init(received, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(received, (params_.splits - 1) * kPartBytes);
    }
    ptx::cluster_arrive_having_read();
    // No CTA of the cluster reads its pipeline any more: a warp's reads end before its last products do. The owner's
    // barrier is known by its own fence.
    ptx::cluster_wait();
    if (!is_owner) {
      const uint32_t place = place_of(shared, warp, rank() - (rank() > owner ? 1 : 0));
      send(ptx::map_to_cta(place, owner), ptx::map_to_cta(received, owner), sums[0]);
      return false;
    }
    wait_for_phase_of_cluster(received, 0);
#pragma unroll 1
    for (int other = 0; other < params_.splits - 1; ++other) add(place_of(shared, warp, other), sums[0]);
    return true;
  }

 private:
  static constexpr int kFours = Kernel::columns / 8;  // of a thread's sums
  static constexpr int kPartBytes = part_bytes(Kernel::config);

  static __device__ __forceinline__ int rank() { return static_cast<int>(blockIdx.y); }

  // Where a lane's sums of the warp's part come, from the `other`-th of the other CTAs.
  __device__ __forceinline__ uint32_t place_of(const typename Kernel::Shared& shared, int warp, int other) const {
    const int part = warp / params_.splits * (params_.splits - 1) + other;
    return shared.address + pipeline_begin(Kernel::config) + part * kPartBytes + threadIdx.x % 32 * 16;
  }

  static __device__ __forceinline__ void send(uint32_t place, uint32_t received,
                                              const float (&sums)[Kernel::columns / 2]) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) ptx::store_async_16(place + i * 512, &sums[4 * i], received);
  }

  static __device__ __forceinline__ void add(uint32_t place, float (&sums)[Kernel::columns / 2]) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const float4 four = ptx::load_shared_float4(place + i * 512);
      float* sum = &sums[4 * i];
      sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
    }
  }
};

}  // namespace tileon::sm90
