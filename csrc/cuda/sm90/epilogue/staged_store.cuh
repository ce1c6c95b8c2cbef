// From accumulators to float32 rows in shared memory, the staging, and from there to any output: every dtype, stride
// and activation. A persistent kernel's warp stages its 16 rows in its own shared memory, some columns at a time, where
// neither TMA (tma_store.cuh) nor a copy of chunks (activated_store.cuh) writes the output.
#pragma once

#include <type_traits>

#include "cuda/common/column_store.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/epilogue/tma_store.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// Writes kColumns of wgmma's columns of a warp's 16 rows to `staging`, where its first row and column go. Rows of the
// staging are rows of the output: where the operands are swapped, those are wgmma's columns.
template <bool kSwapAb, int kPitch, int kColumns>
__device__ __forceinline__ void write_fragments(float* staging, const float* fragments) {
  const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;  // wgmma's
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // eight rows apart
      const float first = fragments[j * 4 + half * 2], second = fragments[j * 4 + half * 2 + 1];
      if constexpr (kSwapAb) {
        staging[(column + j * 8) * kPitch + row + half * 8] = first;
        staging[(column + j * 8 + 1) * kPitch + row + half * 8] = second;
      } else {
        *reinterpret_cast<float2*>(staging + (row + half * 8) * kPitch + column + j * 8) = {first, second};
      }
    }
  }
}

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

// The Store of a persistent kernel that has no other: by TMA where that can write the rows, else staged.
template <typename Kernel>
struct TmaStore {
  // Stores a warp's part of a tile through `shared`, the warp's own. `bias`, in shared memory, is for the output's
  // column that the part begins with.
  template <typename Results>
  static __device__ __forceinline__ void store(const KernelParams& params, unsigned char* shared,
                                               const Results& results, const float* bias,
                                               const FirstBias<Kernel>& first_bias, const StorePlace& place) {
    if (params.store_by_tma) {
      store_by_tma<Kernel>(params, shared, results, bias, first_bias, place);
    } else {
      store_staged<Kernel>(params, shared, results, place);
    }
  }
};

}  // namespace tileon::sm90
