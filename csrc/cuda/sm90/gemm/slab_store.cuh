// From accumulators to any output: every dtype, stride and activation. A warp's 16 rows go through a slab of float32 in
// the warp's own shared memory, some columns at a time.
#pragma once

#include "../../output/column_store.cuh"
#include "../config.h"
#include "../kernel_params.h"
#include "store_place.h"

namespace tileon::sm90 {

// Eight words more than the columns: the rows of a fragment's writes then meet different banks.
constexpr int kSlabPadding = 8;

template <typename Kernel>
__device__ __forceinline__ void store_through_slab(const KernelParams& params, unsigned char* shared,
                                                   const typename Kernel::Sums& sums, const StorePlace& place) {
  constexpr TileConfig config = Kernel::config;
  constexpr bool wide = config.tile_n % 32 == 0 && kStoreRows * (32 + kSlabPadding) * 4 <= warp_store_bytes(config);
  constexpr int columns = wide ? 32 : config.tile_n % 16 == 0 ? 16 : 8;
  constexpr int pitch = columns + kSlabPadding;
  static_assert(kStoreRows * pitch * 4 <= warp_store_bytes(config) && config.tile_n % columns == 0);

  float* slab = reinterpret_cast<float*>(shared);
  const int lane = threadIdx.x % 32;
  float* lane_slab = slab + lane / 4 * pitch + lane % 4 * 2;
  constexpr int slabs_per_block = config.tile_n / columns;
#pragma unroll 1
  for (int index = 0; index < Kernel::row_blocks * slabs_per_block; ++index) {
#pragma unroll
    for (int this_index = 0; this_index < Kernel::row_blocks * slabs_per_block; ++this_index) {
      if (this_index != index) continue;  // registers take constant indices only; the branch is the same in all lanes
      const float* fragment = &sums[this_index / slabs_per_block][this_index % slabs_per_block * (columns / 2)];
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
        *reinterpret_cast<float2*>(lane_slab + j * 8) = {fragment[j * 4], fragment[j * 4 + 1]};
        *reinterpret_cast<float2*>(lane_slab + 8 * pitch + j * 8) = {fragment[j * 4 + 2], fragment[j * 4 + 3]};
      }
    }
    __syncwarp();
    store_by_columns<kStoreRows, columns, pitch>(params.problem, place.batch, place.row + index / slabs_per_block * 64,
                                                 place.column + index % slabs_per_block * columns, slab);
    __syncwarp();
  }
}

}  // namespace tileon::sm90
