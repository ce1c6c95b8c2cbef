// A CTA's sums as a slab of float32 rows of the output, in its shared memory, and the sum of a cluster's slabs.
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/sm90/epilogue/staging.cuh"
#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// Writes one consumer's sums to the slab.
template <typename Kernel>
__device__ __forceinline__ void write_slab(float* slab, const typename Kernel::Sums& sums, int first_row) {
  constexpr int pitch = slab_pitch(Kernel::config);
  const int warp_row = first_row + threadIdx.x % 128 / 32 * kStoreRows;  // wgmma's
#pragma unroll
  for (int block = 0; block < Kernel::row_blocks; ++block) {
    const int row = warp_row + block * 64;
    write_fragments<Kernel::swapped, pitch, Kernel::columns>(slab + (Kernel::swapped ? row : row * pitch), sums[block]);
  }
}

// Adds the slabs of all CTAs of the cluster for `kRows` rows from `row` on, always in the order of k, and leaves the
// sum in this CTA's slab. By one warp.
template <typename Kernel, int kRows>
__device__ __forceinline__ void add_slabs(float* slab, int row, int splits) {
  constexpr int pitch = slab_pitch(Kernel::config);
  constexpr int quads = Kernel::config.tile_n / 4;  // of a row
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(slab));
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
    *reinterpret_cast<float4*>(slab + at) = sum;
  }
}

// Adds up and stores this CTA's share of the tile's rows: every splits-th group of as many rows as a warp stores at
// once.
template <typename Kernel>
__device__ __forceinline__ void store_share(const KernelParams& params, float* slab, int m_begin, int n_begin,
                                            int batch, int rank, int splits) {
  constexpr TileConfig config = Kernel::config;
  constexpr int pitch = slab_pitch(config);
  constexpr int rows = 128 / config.tile_n;  // a warp stores at once: 32 lanes of 4 columns
  static_assert(rows >= 1 && config.tile_m % rows == 0);
  const WarpStore<float, config.tile_n> warp_store(params.problem, params.vector_stores, batch, n_begin,
                                                   threadIdx.x % 32);
  const int warps = config.consumers * 4;
  for (int group = rank + splits * (threadIdx.x / 32); group < config.tile_m / rows; group += splits * warps) {
    const int row = group * rows;
    if (splits > 1) add_slabs<Kernel, rows>(slab, row, splits);
    warp_store.template store<rows, pitch>(slab + row * pitch, m_begin + row, 1);
  }
}

}  // namespace tileon::sm90
