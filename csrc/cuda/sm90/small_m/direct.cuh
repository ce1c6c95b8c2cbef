// Few rows of `a` by a weight that alone has scales. No warp waits for another: each reads codes straight into
// registers, decodes them there (elements.cuh) and multiplies them by `a`, which it copies to its own part of shared
// memory. So little is left for a kernel's start and end. A CTA has a tile of the output, and its warps share k: each
// takes every so many-th chunk of it. In the end their sums are added up, in the warps' order.
#pragma once

#include <cstdint>

#include "core/epilogue.h"
#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/heuristics/direct_weight.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/direct_loads.cuh"
#include "cuda/sm90/small_m/direct_products.cuh"

namespace tileon::sm90 {

// ---- sums ----

// Makes NaN what lost one: lanes of a row hold its columns.
template <typename Kernel>
__device__ __forceinline__ void keep_nans(uint32_t lost, typename Kernel::Sums& sums) {
  if constexpr (Kernel::loses_nan) {
    lost |= __shfl_xor_sync(0xffffffffu, lost, 1);
    lost |= __shfl_xor_sync(0xffffffffu, lost, 2);
#pragma unroll
    for (int panel = 0; panel < Kernel::panels_n; ++panel)
#pragma unroll
      for (int column = 0; column < Kernel::panels_m; ++column)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if ((lost >> (2 * panel + i / 2) & 1) != 0) sums[panel][column][i] = float_of(0x7fffffff);
  }
}

// Of one warp, where its copies of `a` were: rows are `a`'s.
template <typename Kernel>
__device__ __forceinline__ void write_direct_sums(float* own, int lane, const typename Kernel::Sums& sums) {
#pragma unroll
  for (int panel = 0; panel < Kernel::panels_n; ++panel)
#pragma unroll
    for (int column = 0; column < Kernel::panels_m; ++column)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = column * kPanelRowsOfA + lane % 4 * 2 + i % 2;
        const int of_tile = panel * kPanelRowsOfB + i / 2 * 8 + lane / 4;
        own[row * direct_pitch(Kernel::tile_n) + of_tile] = sums[panel][column][i];
      }
}

// Finishes and stores one sum of all k.
template <typename Kernel>
__device__ __forceinline__ void store_direct(const DirectWeightParams& params, int64_t row, int64_t column, float sum) {
  const ScaledKernelProblem& problem = params.problem;
  const Epilogue& epilogue = problem.epilogue;
  sum *= Kernel::lacked_factor();  // a power of two: exact
  if constexpr (!Kernel::has_block_scales)
    sum *= static_cast<const float*>(problem.b.scale)[problem.b.scale_strides.of_row(column)];
  if (problem.global_scale != nullptr) sum *= problem.global_scale[row * params.global_scale_stride];
  if (epilogue.bias != nullptr) sum += load_bias<float>(epilogue, column);
  store_as(problem.out.data, problem.out_dtype, row * problem.out.stride_m + column * problem.out.stride_n,
           activate(sum, epilogue.activation, static_cast<float>(epilogue.slope)));
}

// ---- the kernel ----

template <typename Kernel>
__global__ void __launch_bounds__(kDirectMaxWarps * 32, 1)
    weight_direct(const __grid_constant__ DirectWeightParams params) {
  constexpr int kWarpBytes = direct_warp_bytes(Kernel::tile_m, Kernel::tile_n);
  unsigned char* const shared = ptx::DynamicShared<128>{}.begin;
  const ScaledKernelProblem& problem = params.problem;
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned char* const own = shared + warp * kWarpBytes;
  const int m_begin = static_cast<int>(blockIdx.x) / params.tiles_n * Kernel::tile_m;
  const int first_row = direct_first_row(static_cast<int>(blockIdx.x) % params.tiles_n, Kernel::panels_n);
  if (first_row >= problem.n) return;
  ptx::grid_dependency_wait();

  typename Kernel::Sums sums{};
  const DirectRows<Kernel> rows(problem, first_row, lane);
  const DirectColumns<Kernel> columns(problem, m_begin, static_cast<uint32_t>(__cvta_generic_to_shared(own)), lane);
  const uint32_t lost = multiply_chunks<Kernel>(rows, columns, warp, warps, params.chunks, sums);
  ptx::grid_dependency_launch();  // not before: the next kernel's CTAs would take places that this one's are to have
  keep_nans<Kernel>(lost, sums);
  __syncwarp();  // no lane reads `a` or copies it any more
  write_direct_sums<Kernel>(reinterpret_cast<float*>(own), lane, sums);
  __syncthreads();

#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < Kernel::tile_m * Kernel::tile_n; i += static_cast<int>(blockDim.x)) {
    const int row = i / Kernel::tile_n, of_tile = i % Kernel::tile_n;
    const int64_t column = int64_t{first_row} + of_tile / kPanelRowsOfB * kPanelRowsApart + of_tile % kPanelRowsOfB;
    if (m_begin + row >= problem.m || column >= problem.n) continue;
    const float* parts = reinterpret_cast<const float*>(shared) + row * direct_pitch(Kernel::tile_n) + of_tile;
    float sum = parts[0];
#pragma unroll 4
    for (int part = 1; part < warps; ++part) sum += parts[part * (kWarpBytes / 4)];
    store_direct<Kernel>(params, m_begin + row, column, sum);
  }
}

}  // namespace tileon::sm90
