// A CTA's sums staged as float32 rows of the output, in its shared memory, and the sum of what a cluster's CTAs staged.
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/epilogue/staged_store.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/producer.cuh"

namespace tileon::sm90 {

// The Store of a cluster whose CTAs split k.
template <typename Kernel>
class ClusterReduction {
  static constexpr TileConfig config = Kernel::config;
  static constexpr int pitch = staging_pitch(config);

 public:
  // Writes one consumer's sums to the CTA's staging.
  static __device__ __forceinline__ void stage_accumulators(float* staging, const typename Kernel::Sums& sums,
                                                            int first_row) {
    const int warp_row = first_row + threadIdx.x % 128 / 32 * kStoreRows;  // wgmma's
#pragma unroll
    for (int block = 0; block < Kernel::row_blocks; ++block) {
      const int row = warp_row + block * 64;
      float* rows = staging + (Kernel::swapped ? row : row * pitch);
      write_fragments<Kernel::swapped, pitch, Kernel::columns>(rows, sums[block]);
    }
  }

  // Adds up and stores this CTA's share of the tile's rows: every splits-th group of as many rows as a warp stores at
  // once.
  static __device__ __forceinline__ void store_share(const KernelParams& params, float* staging,
                                                     const TilePosition& position, int rank, int splits) {
    constexpr int rows = 128 / config.tile_n;  // a warp stores at once: 32 lanes of 4 columns
    static_assert(rows >= 1 && config.tile_m % rows == 0);
    const WarpStore<float, config.tile_n> warp_store(params.problem, params.vector_stores, position.batch,
                                                     position.n_begin, threadIdx.x % 32);
    const int warps = config.consumers * 4;
    for (int group = rank + splits * (threadIdx.x / 32); group < config.tile_m / rows; group += splits * warps) {
      const int row = group * rows;
      if (splits > 1) add_staged<rows>(staging, row, splits);
      warp_store.template store<rows, pitch>(staging + row * pitch, position.m_begin + row, 1);
    }
  }

 private:
  // Adds what all CTAs of the cluster staged for `kRows` rows from `row` on, always in the order of k, and leaves the
  // sum in this CTA's staging. By one warp.
  template <int kRows>
  static __device__ __forceinline__ void add_staged(float* staging, int row, int splits) {
    constexpr int quads = config.tile_n / 4;  // of a row
    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(staging));
    for (int i = threadIdx.x % 32; i < kRows * quads; i += 32) {
      const int at = (row + i / quads) * pitch + i % quads * 4;
      float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
      for (int split = 0; split < splits; ++split) {
        const float4 part = ptx::load_cluster_16(ptx::map_to_cta(shared + at * 4, split));
        sum.x += part.x;
        sum.y += part.y;
        sum.z += part.z;
        sum.w += part.w;
      }
      *reinterpret_cast<float4*>(staging + at) = sum;
    }
  }
};

}  // namespace tileon::sm90
