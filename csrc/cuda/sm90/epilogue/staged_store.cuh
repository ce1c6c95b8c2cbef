// From accumulators to the outputs that neither TMA (tma_store.cuh) nor a copy of chunks (row_copy.cuh) writes: every
// dtype, stride and activation. A warp's 16 rows go through a slab of float32 in the warp's own shared memory, some
// columns at a time.
#pragma once

#include "cuda/common/column_store.cuh"
#include "cuda/sm90/epilogue/constant_index.cuh"
#include "cuda/sm90/epilogue/staging.cuh"
#include "cuda/sm90/epilogue/store_place.h"
#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// How a warp's sums lie in its slab: 16 of wgmma's rows by `columns` of its columns. Rows of the slab are rows of the
// output, so swapped operands lie transposed. The padding leads a fragment's writes to different banks.
template <typename Kernel>
struct WarpSlab {
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
__device__ __forceinline__ void store_through_slab(const KernelParams& params, unsigned char* shared,
                                                   const Results& results, const StorePlace& place) {
  using Slab = WarpSlab<Kernel>;
  constexpr int slab_rows = Kernel::swapped ? Slab::columns : kStoreRows;
  constexpr int slab_columns = Kernel::swapped ? kStoreRows : Slab::columns;
  constexpr int per_block = Kernel::columns / Slab::columns;
  float* slab = reinterpret_cast<float*>(shared);
#pragma unroll 1
  for (int index = 0; index < Kernel::row_blocks * per_block; ++index) {
    with_constant<0, Kernel::row_blocks * per_block>(index, [&](auto constant) {
      constexpr int block = constant.value / per_block, begin = constant.value % per_block * Slab::columns;
      const auto fragments = results.template columns<block, begin, Slab::columns>();
      write_fragments<Kernel::swapped, Slab::pitch, Slab::columns>(slab, &fragments[0]);
    });
    __syncwarp();
    const int down = index / per_block * 64, along = index % per_block * Slab::columns;  // wgmma's rows and columns
    store_by_columns<slab_rows, slab_columns, Slab::pitch, Kernel::slab_columns_of_lane, Kernel::keeps_pre_activation>(
        params.problem, params.vector_stores, place.batch, place.row + (Kernel::swapped ? along : down),
        place.column + (Kernel::swapped ? down : along), slab);
    __syncwarp();
  }
}

}  // namespace tileon::sm90
