// The sums of the slices of k (heuristics/k_slices.h) become the output: added up in the order of k, then finished as
// every kernel's sums are. Bound by memory: each sum is read once, most of them from L2.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/shared.cuh"

namespace tileon::sm80 {

constexpr int kAddWarps = 8;           // of a CTA
constexpr int kAddColumns = 128;       // of a warp, four a lane
constexpr int kSlicesAtOnce = 8;       // whose loads are under way together
constexpr int kGroupsFromSlices = 16;  // from so many on, warps share the slices of a row

template <typename Accumulator_, typename Problem_>
struct AddSlicesParams {
  using Accumulator = Accumulator_;
  using Problem = Problem_;
  Problem problem;
  const Accumulator* sums;  // [batch][slice][m][pitch]
  int64_t pitch;
  int slices;
  int groups;  // of warps that share the slices of a row: 1 or kAddWarps
  int column_blocks;
  int row_blocks;
  bool vector_stores;
};

template <typename Accumulator>
__device__ __forceinline__ void add(Quad<Accumulator>& sums, const Quad<Accumulator>& more) {
#pragma unroll
  for (int i = 0; i < kColumnsPerLane; ++i) sums.values[i] += more.values[i];
}

// Adds up the sums that lie `step` apart, `count` of them, the first `columns` of each four.
template <typename Accumulator>
__device__ __forceinline__ Quad<Accumulator> add_in_order(const Accumulator* first, int64_t step, int count,
                                                          int columns) {
  Quad<Accumulator> sums{};
  const auto load = [&](int slice) {
    const Accumulator* from = first + slice * step;
    if (columns == kColumnsPerLane) return *reinterpret_cast<const Quad<Accumulator>*>(from);
    Quad<Accumulator> loaded{};
#pragma unroll
    for (int i = 0; i < kColumnsPerLane; ++i)
      if (i < columns) loaded.values[i] = from[i];
    return loaded;
  };
  int slice = 0;
#pragma unroll 1
  for (; slice + kSlicesAtOnce <= count; slice += kSlicesAtOnce) {
    Quad<Accumulator> loaded[kSlicesAtOnce];
#pragma unroll
    for (int i = 0; i < kSlicesAtOnce; ++i) loaded[i] = load(slice + i);
#pragma unroll
    for (int i = 0; i < kSlicesAtOnce; ++i) add(sums, loaded[i]);
  }
#pragma unroll 1
  for (; slice < count; ++slice) add(sums, load(slice));
  return sums;
}

// A warp has kAddColumns columns of a row, and all slices of them or those of its group.
template <typename Params>
__global__ void __launch_bounds__(kAddWarps * 32) add_slices(const __grid_constant__ Params params) {
  using Accumulator = typename Params::Accumulator;
  auto& slabs = ptx::static_shared<Quad<Accumulator>[kAddWarps][32]>();
  ptx::grid_dependency_wait();  // launched while the slices are still being multiplied
  const auto& problem = params.problem;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = warp % params.groups, rows_of_cta = kAddWarps / params.groups;
  const auto block = static_cast<int>(blockIdx.x);
  const int column_block = block % params.column_blocks, row_block = block / params.column_blocks % params.row_blocks;
  const int64_t batch = block / params.column_blocks / params.row_blocks;
  const int64_t row = static_cast<int64_t>(row_block) * rows_of_cta + warp / params.groups;
  const int64_t column = static_cast<int64_t>(column_block) * kAddColumns;
  const int64_t columns = min(problem.n - column - lane * kColumnsPerLane, static_cast<int64_t>(kColumnsPerLane));

  if (row < problem.m && columns > 0) {
    const int of_group = (params.slices + params.groups - 1) / params.groups;
    const int first = group * of_group, count = min(of_group, params.slices - first);
    const int64_t step = problem.m * params.pitch;
    const Accumulator* from = params.sums + (batch * params.slices + first) * step + row * params.pitch + column;
    slabs[warp][lane] = add_in_order(from + lane * kColumnsPerLane, step, count, static_cast<int>(columns));
  }
  __syncthreads();
  if (group != 0 || row >= problem.m) return;
  if (columns > 0) {
    Quad<Accumulator> sums = slabs[warp][lane];
    for (int i = 1; i < params.groups; ++i) add(sums, slabs[warp + i][lane]);
    if constexpr (std::is_same_v<typename Params::Problem, ScaledKernelProblem>) {
      const float scale = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;
#pragma unroll
      for (float& sum : sums.values) sum *= scale;
    }
    slabs[warp][lane] = sums;
  }
  __syncwarp();  // a lane may store what others added up
  const WarpStore<Accumulator, kAddColumns, typename Params::Problem> warp_store(problem, params.vector_stores, batch,
                                                                                 column, lane);
  warp_store.template store<1, kAddColumns>(reinterpret_cast<const Accumulator*>(slabs[warp]), row, 1);
}

}  // namespace tileon::sm80
