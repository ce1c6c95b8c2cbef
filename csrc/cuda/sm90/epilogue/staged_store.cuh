// From accumulators to float32 rows in shared memory, the staging, and from there to any output: every dtype, stride
// and activation. A persistent kernel's warp stages its 16 rows in its own shared memory, some columns at a time, where
// neither TMA (tma_store.cuh) nor a copy of its chunks writes the output.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// Registers take constant indices only. Calls `use` with `index`, from kBegin to before kEnd, as a
// std::integral_constant: by branches that are the same in all lanes, of which there are as many as the count has
// binary digits.
template <int kBegin, int kEnd, typename Use>
__device__ __forceinline__ void with_constant(int index, const Use& use) {
  static_assert(kBegin < kEnd);
  if constexpr (kBegin + 1 == kEnd) {
    use(std::integral_constant<int, kBegin>());
  } else {
    constexpr int middle = (kBegin + kEnd) / 2;
    if (index < middle) {
      with_constant<kBegin, middle>(index, use);
    } else {
      with_constant<middle, kEnd>(index, use);
    }
  }
}

// How a warp's sums lie in its staging: 16 of wgmma's rows by `columns` of its columns. Rows of the staging are rows of
// the output, so swapped operands lie transposed. The padding leads a fragment's writes to different banks.
template <typename Kernel>
struct WarpStaging {
  static constexpr TileConfig config = Kernel::config;
  static constexpr int pitch_of(int columns) { return Kernel::swapped ? kStoreRows + 4 : columns + 8; }
  static constexpr int bytes_of(int columns) {
    return (Kernel::swapped ? columns : kStoreRows) * pitch_of(columns) * int(sizeof(float));
  }
  static constexpr bool takes(int columns) {
    return Kernel::columns % columns == 0 && bytes_of(columns) <= warp_store_bytes(config);
  }
  static constexpr int columns = takes(32) ? 32 : takes(16) ? 16 : 8;
  static_assert(takes(columns));
  static constexpr int pitch = pitch_of(columns);
};

template <typename Kernel, typename Results>
__device__ __forceinline__ void store_staged(const KernelParams& params, unsigned char* shared, const Results& results,
                                             const StorePlace& place) {
  using Staging = WarpStaging<Kernel>;
  constexpr int rows = Kernel::swapped ? Staging::columns : kStoreRows;
  constexpr int columns = Kernel::swapped ? kStoreRows : Staging::columns;
  constexpr int per_block = Kernel::columns / Staging::columns;
  float* staging = reinterpret_cast<float*>(shared);
#pragma unroll 1
  for (int index = 0; index < Kernel::row_blocks * per_block; ++index) {
    with_constant<0, Kernel::row_blocks * per_block>(index, [&](auto constant) {
      constexpr int block = constant.value / per_block, begin = constant.value % per_block * Staging::columns;
      const auto fragments = results.template columns<block, begin, Staging::columns>();
      write_fragments<Kernel::swapped, Staging::pitch, Staging::columns>(staging, &fragments[0]);
    });
    __syncwarp();
    const int down = index / per_block * 64, along = index % per_block * Staging::columns;  // wgmma's rows and columns
    store_by_columns<rows, columns, Staging::pitch, Kernel::staged_columns_of_lane, Kernel::keeps_pre_activation>(
        params.problem, params.vector_stores, place.batch, place.row + (Kernel::swapped ? along : down),
        place.column + (Kernel::swapped ? down : along), staging);
    __syncwarp();
  }
}

// ---- a CTA's sums staged as rows of the output, and the sum of what a cluster's CTAs staged ----

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
      if (splits > 1) {
        add_staged<rows>(staging, row, splits);
        __syncwarp();  // a lane may store what others added up
      }
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
