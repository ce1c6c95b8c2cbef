// From the consumers' sums to the output: stagings of float32 in the shared memory of a cluster's CTAs, added up in a
// fixed order.
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/epilogue/staged_store.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/losses.cuh"
#include "cuda/sm90/small_m/traits.cuh"

namespace tileon::sm90 {

// Writes one consumer's sums to the staging of its part of k, whose rows are a's.
template <typename Kernel>
__device__ __forceinline__ void write_sums(float* staging, int warp, const typename Kernel::Sums& sums) {
  const int consumer = warp / 4, part = consumer % Kernel::parts;
  const int column = consumer / Kernel::parts * 64 + warp % 4 * 16;
  write_fragments<true, kSmallMPitch, Kernel::tile_m>(staging + part * Kernel::tile_m * kSmallMPitch + column, sums);
}

// Four columns of a row, over all parts of k in all CTAs of the cluster.
template <typename Kernel>
__device__ __forceinline__ float4 add_parts(uint32_t staging, int row, int column, int splits) {
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
  for (int split = 0; split < splits; ++split) {
#pragma unroll
    for (int part = 0; part < Kernel::parts; ++part) {
      const uint32_t at = staging + ((part * Kernel::tile_m + row) * kSmallMPitch + column) * 4;
      const float4 more = ptx::load_cluster_16(ptx::map_to_cta(at, split));
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
  }
  return sum;
}

// Four sums of a row where either operand's row has lost a NaN.
__device__ __forceinline__ float4 with_nans(const float4& sum, const Losses& losses, int row, int column, int splits) {
  const bool whole_row = (losses.nan_rows(row, splits) & 1) != 0;
  const uint32_t columns = losses.nan_rows(Losses::kRowsOfB + column, splits);
  const auto at = [&](float value, int j) {
    return whole_row || (columns >> j & 1) != 0 ? float_of(0x7fffffff) : value;
  };
  return {at(sum.x, 0), at(sum.y, 1), at(sum.z, 2), at(sum.w, 3)};
}

// Stores this CTA's share of the tile: every splits-th row. By the consumers' warps. The sums lack `factor`.
template <typename Kernel>
__device__ __forceinline__ void store_share(const SmallMParams& params, const Losses& losses, float* staging,
                                            int m_begin, int n_begin, int rank, int warp, float factor,
                                            bool may_be_nan) {
  const ScaledKernelProblem& problem = params.problem;
  const int lane = threadIdx.x % 32, column = lane * kColumnsPerLane;
  const WarpStore<float, kSmallMTileN, ScaledKernelProblem> warp_store(problem, params.vector_stores, 0, n_begin, lane);
  const float global_scale = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(staging));
  const int rows = static_cast<int>(min(static_cast<int64_t>(Kernel::tile_m), problem.m - m_begin));
#pragma unroll 1
  for (int row = rank + params.splits * warp; row < rows; row += params.splits * Kernel::consumers * 4) {
    float4 sum = add_parts<Kernel>(shared, row, column, params.splits);
    sum = {sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor};  // a power of two: exact
    if (may_be_nan) sum = with_nans(sum, losses, row, column, params.splits);
    float* sums = staging + row * kSmallMPitch;  // of which a lane stores the four that it writes here
    *reinterpret_cast<float4*>(sums + column) = {sum.x * global_scale, sum.y * global_scale, sum.z * global_scale,
                                                 sum.w * global_scale};
    warp_store.template store<1, kSmallMPitch>(sums, m_begin + row, 1);
  }
}

}  // namespace tileon::sm90
