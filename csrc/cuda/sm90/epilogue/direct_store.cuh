// From accumulators to float32 rows, without shared memory in between: the lanes of a warp fill whole sectors of 32
// bytes, eight rows at a time or, of swapped operands, four. A float32 product takes two or six times as long as one of
// bfloat16, so its stores need not overlap the next tile.
#pragma once

#include <cstdint>

#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/epilogue/tma_store.cuh"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// Stores two neighbouring columns, of which the second may be beyond the end. `vectors`: both at once.
__device__ __forceinline__ void store_pair(float* to, float2 pair, bool vectors, bool both) {
  if (vectors && both) {
    *reinterpret_cast<float2*>(to) = pair;
  } else {
    to[0] = pair.x;
    if (both) to[1] = pair.y;
  }
}

// Finishes and stores a warp's part of a tile: wgmma's rows are the output's. `bias`, in shared memory, is for the
// tile's columns.
template <typename Kernel, typename Results, typename EpilogueOfSum>
__device__ __forceinline__ void store_directly(const KernelParams& params, const Results& results, const float* bias,
                                               const StorePlace& place, const EpilogueOfSum& epilogue) {
  const KernelProblem& problem = params.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int lane_column = lane % 4 * 2, first_column = place.column + lane_column;
  const auto n = static_cast<int>(problem.n);
#pragma unroll
  for (int half = 0; half < 2 * Kernel::row_blocks; ++half) {  // of the sixteen rows that a warp has in a block
    const float* sums = results.columns_of(half / 2);
    const int row = place.row + half / 2 * 64 + lane / 4 + half % 2 * 8;
    if (row >= problem.m) break;
    float* to = static_cast<float*>(problem.out.data) + place.batch * problem.out.stride_batch +
                row * problem.out.stride_m + first_column;
#pragma unroll
    for (int j = 0; j < Kernel::columns / 8; ++j) {
      if (first_column + j * 8 >= n) break;
      float2 pair = {sums[j * 4 + half % 2 * 2], sums[j * 4 + half % 2 * 2 + 1]};
      if constexpr (EpilogueOfSum::biased) {
        const float2 its_bias = *reinterpret_cast<const float2*>(bias + lane_column + j * 8);
        pair = {pair.x + its_bias.x, pair.y + its_bias.y};
      }
      pair = {epilogue.finish(pair.x), epilogue.finish(pair.y)};
      store_pair(to + j * 8, pair, params.vector_stores, first_column + j * 8 + 1 < n);
    }
  }
}

// As it, of swapped operands: wgmma's columns are the output's rows. `bias` is for the part's columns.
template <typename Kernel, typename Results, typename EpilogueOfSum>
__device__ __forceinline__ void store_swapped_directly(const KernelParams& params, const Results& results,
                                                       const float* bias, const StorePlace& place,
                                                       const EpilogueOfSum& epilogue) {
  static_assert(Kernel::row_blocks == 1);
  const KernelProblem& problem = params.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = place.row + lane % 4 * 2;
  const float* sums = results.columns_of(0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // eight columns apart
    const int of_part = lane / 4 + half * 8;
    if (place.column + of_part >= problem.n) break;
    float its_bias = 0.0f;
    if constexpr (EpilogueOfSum::biased) its_bias = bias[of_part];
    float* to = static_cast<float*>(problem.out.data) + place.batch * problem.out.stride_batch +
                first_row * problem.out.stride_m + place.column + of_part;
#pragma unroll
    for (int j = 0; j < Kernel::columns / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (first_row + j * 8 + i < problem.m)
          to[(j * 8 + i) * problem.out.stride_m] = epilogue.finish(sums[j * 4 + half * 2 + i] + its_bias);
    }
  }
}

// The Store of float32 products.
template <typename Kernel>
struct DirectStore {
  // As TmaStore's.
  template <typename Results>
  static __device__ __forceinline__ void store(const KernelParams& params, unsigned char* shared,
                                               const Results& results, const float* bias,
                                               const FirstBias<Kernel>& first_bias, const StorePlace& place) {
    if (params.store_directly)
      return with_formula(params, [&](const auto& formula) {
        if constexpr (Kernel::swapped) {
          store_swapped_directly<Kernel>(params, results, bias, place, formula);
        } else {
          store_directly<Kernel>(params, results, bias, place, formula);
        }
      });
    TmaStore<Kernel>::store(params, shared, results, bias, first_bias, place);
  }
};

}  // namespace tileon::sm90
