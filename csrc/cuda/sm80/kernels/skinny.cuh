// Float32 products with a few rows of a: b is read once, at the memory's rate, straight into registers. A warp has four
// columns of b; its lanes, and the warps beside it, share k.
#pragma once

#include <cstdint>

#include "core/epilogue.h"
#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

template <TileConfig kConfig>
struct SkinnyKernel {
  static constexpr TileConfig config = kConfig;
  static constexpr int shared_bytes = 0;  // of dynamic shared memory
  static constexpr int rows = kConfig.tile_m;
  static constexpr int warps_k = kConfig.warps_m;
  static constexpr int columns = kConfig.tile_n / kConfig.warps_n;  // of a warp
  static constexpr int vector = 4;                                  // elements of k that a lane loads at once
  static constexpr int step = warps_k * 32 * vector;                // elements of k that all warps do
  static_assert(step == kConfig.block_k && rows * kConfig.tile_n <= kConfig.threads());
};

__device__ __forceinline__ float multiply_add(const float4& x, const float4& y, float sum) {
  return fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, sum))));
}

// One lane's part of the sums: every one of `rows` rows of a by every one of `columns` columns of b.
template <typename Kernel>
class SkinnySums {
  static constexpr int kRows = Kernel::rows, kColumns = Kernel::columns;

 public:
  float sums[kRows][kColumns] = {};

  // Rows of a and columns of b beyond the end repeat the last one; their sums are not stored.
  __device__ __forceinline__ SkinnySums(const KernelProblem& problem, const CtaTile& tile, int64_t column) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      a_[i] = static_cast<const float*>(problem.a.data) + tile.batch * problem.a.stride_batch +
              min(tile.m_begin + i, problem.m - 1) * problem.a.stride_mn;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      b_[j] = static_cast<const float*>(problem.b.data) + tile.batch * problem.b.stride_batch +
              min(column + j, problem.n - 1) * problem.b.stride_mn;
  }

  // Adds the products of four elements along k from `k` on, or of one.
  __device__ __forceinline__ void add_four(int64_t k) {
    float4 columns[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) columns[j] = __ldcs(reinterpret_cast<const float4*>(b_[j] + k));
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float4 row = __ldg(reinterpret_cast<const float4*>(a_[i] + k));
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] = multiply_add(row, columns[j], sums[i][j]);
    }
  }
  __device__ __forceinline__ void add_one(int64_t k) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] = fmaf(a_[i][k], b_[j][k], sums[i][j]);
  }

  // Adds up the sums of all lanes; each lane then has the totals.
  __device__ __forceinline__ void add_lanes() {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int lane = 16; lane > 0; lane /= 2) sums[i][j] += __shfl_xor_sync(0xffffffff, sums[i][j], lane);
  }

 private:
  const float* a_[kRows];
  const float* b_[kColumns];
};

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::config.threads(), Kernel::config.ctas_per_sm)
    skinny(const __grid_constant__ KernelParams params) {
  constexpr TileConfig config = Kernel::config;
  auto& parts = ptx::static_shared<float[Kernel::warps_k][Kernel::rows][config.tile_n]>();
  const KernelProblem& problem = params.problem;
  if (!holds(problem.device_flag)) return;
  const CtaTile tile(params, config);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_k = warp % Kernel::warps_k, warp_column = warp / Kernel::warps_k * Kernel::columns;

  SkinnySums<Kernel> mine(problem, tile, tile.n_begin + warp_column);
  const int64_t whole = problem.k / Kernel::vector * Kernel::vector;
#pragma unroll 2
  for (int64_t k = (warp_k * 32 + lane) * Kernel::vector; k < whole; k += Kernel::step) mine.add_four(k);
  if (warp_k == 0 && whole + lane < problem.k) mine.add_one(whole + lane);
  mine.add_lanes();

  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < Kernel::rows; ++i)
#pragma unroll
      for (int j = 0; j < Kernel::columns; ++j) parts[warp_k][i][warp_column + j] = mine.sums[i][j];
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / config.tile_n, column = static_cast<int>(threadIdx.x) % config.tile_n;
  if (row >= Kernel::rows || tile.m_begin + row >= problem.m || tile.n_begin + column >= problem.n) return;
  float sum = parts[0][row][column];
#pragma unroll
  for (int i = 1; i < Kernel::warps_k; ++i) sum += parts[i][row][column];
  const Epilogue& epilogue = problem.epilogue;
  const int64_t at = tile.out * problem.out.stride_batch + (tile.m_begin + row) * problem.out.stride_m +
                     (tile.n_begin + column) * problem.out.stride_n;
  if (epilogue.bias != nullptr) sum += load_bias<float>(epilogue, tile.n_begin + column);
  if (problem.pre_activation != nullptr) store_as(problem.pre_activation, problem.out_dtype, at, sum);
  store_as(problem.out.data, problem.out_dtype, at,
           activate(sum, epilogue.activation, static_cast<float>(epilogue.slope)));
}

}  // namespace tileon::sm80
