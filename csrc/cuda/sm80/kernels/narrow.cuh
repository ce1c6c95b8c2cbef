// Products with few rows of a or few columns of b, of every dtype and any strides, on the ordinary arithmetic units:
// the long operand is read once, at the memory's rate, straight into registers (common/narrow.h says how). Sums are
// float32, of float64 double, and the same bits every time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/epilogue.h"
#include "cuda/common/epilogue_store.cuh"
#include "cuda/common/narrow.h"
#include "cuda/common/tile_order.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/long_vectors.cuh"
#include "cuda/sm80/loaders/short_chunk.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

struct NarrowParams {
  KernelProblem problem;
  NarrowPlan plan;
  NarrowSteps steps;
  FastDivisor tiles_columns;    // of the short side, which follow each other: the second finds the long operand in L2
  FastDivisor tiles_per_batch;  // of both sides; block index = batch * tiles_per_batch + tile
  int64_t first_batch;          // this launch's first
};

// The types and sizes of one kernel. One serves both dtypes of fp8.
template <typename Element_, TileConfig kConfig, bool kAlongK>
struct NarrowKernel {
  using Element = Element_;
  using Accumulator = std::conditional_t<std::is_same_v<Element, double>, double, float>;
  static constexpr TileConfig config = kConfig;
  static constexpr bool along_k = kAlongK;
  static constexpr int columns = kConfig.tile_m;
  static constexpr int vector = narrow_vector(sizeof(Element), kAlongK, columns);
  static constexpr int group = 16 / int(sizeof(Accumulator));  // elements that shared memory gives at once
  static constexpr int strands = narrow_strands(sizeof(Element), kAlongK, columns);
  static constexpr int sum_rows = kAlongK ? strands : vector;
  using Long = LongReader<Element, vector, strands, kAlongK>;
  using Short = ShortChunk<Element, Accumulator, columns, kAlongK>;
  using Vector = typename Long::Vector;
  using Sums = Accumulator[sum_rows][columns];
  static_assert(kConfig.threads() == kNarrowThreads && kConfig.ctas_per_sm == kNarrowCtasPerSm && columns % 2 == 0);
};

// A CTA's part of the output: rows of the long operand, columns of the short one. Worked out before the walk along k,
// and anew behind it: meanwhile it would take registers.
struct NarrowTile {
  int64_t batch, row_begin, column_begin;
  int64_t rows_left;
  int columns;  // that are there

  __device__ __forceinline__ NarrowTile(const NarrowParams& params, int most_columns) {
    const KernelProblem& problem = params.problem;
    const int block = static_cast<int>(ptx::opaque(blockIdx.x)), batch_here = params.tiles_per_batch.divide(block);
    const int tile = block - batch_here * params.tiles_per_batch.divisor();
    const int tile_rows = params.tiles_columns.divide(tile);
    batch = params.first_batch + batch_here;
    row_begin = static_cast<int64_t>(tile_rows) << params.plan.log_rows;
    column_begin = static_cast<int64_t>(tile - tile_rows * params.tiles_columns.divisor()) * most_columns;
    rows_left = (params.plan.long_is_b ? problem.n : problem.m) - row_begin;
    const int64_t columns_left = (params.plan.long_is_b ? problem.m : problem.n) - column_begin;
    columns = static_cast<int>(columns_left < most_columns ? columns_left : most_columns);
  }
};

template <typename Accumulator, int kCount>
struct alignas(kCount * sizeof(Accumulator)) SharedGroup {
  Accumulator values[kCount];
};

// Adds the products of one step's vectors, whose k begins at `chunk`'s element `begin`.
template <typename Kernel>
__device__ __forceinline__ void multiply_along_k(const typename Kernel::Vector (&vectors)[Kernel::strands],
                                                 const typename Kernel::Accumulator* chunk, int begin,
                                                 const NarrowPlan& plan, bool e4m3, typename Kernel::Sums& sums) {
  using Accumulator = typename Kernel::Accumulator;
  using Group = SharedGroup<Accumulator, Kernel::group>;
  const int line_thread = static_cast<int>(threadIdx.x) & ((1 << plan.log_line) - 1);
  const auto* from = reinterpret_cast<const Group*>(chunk + begin) + line_thread;
#pragma unroll
  for (int j = 0; j < Kernel::vector / Kernel::group; ++j) {
    Accumulator rows[Kernel::strands][Kernel::group];
#pragma unroll
    for (int i = 0; i < Kernel::strands; ++i) widen_group(vectors[i], j, e4m3, rows[i]);
#pragma unroll
    for (int column = 0; column < Kernel::columns; ++column) {
      const Group held = from[(j << plan.log_line) + column * (plan.chunk / Kernel::group)];
#pragma unroll
      for (int i = 0; i < Kernel::strands; ++i)
#pragma unroll
        for (int k = 0; k < Kernel::group; ++k) sums[i][column] = fma(rows[i][k], held.values[k], sums[i][column]);
    }
  }
}

template <typename Kernel>
__device__ __forceinline__ void multiply_across_k(const typename Kernel::Vector (&vectors)[Kernel::strands],
                                                  const typename Kernel::Accumulator* chunk, int begin, int log_line,
                                                  int log_groups, bool e4m3, typename Kernel::Sums& sums) {
  using Accumulator = typename Kernel::Accumulator;
  constexpr int most = Kernel::group < Kernel::columns ? Kernel::group : Kernel::columns;
  using Group = SharedGroup<Accumulator, most>;
  const int first = begin + (static_cast<int>(threadIdx.x) >> log_line);
#pragma unroll
  for (int i = 0; i < Kernel::strands; ++i) {
    const auto* from = reinterpret_cast<const Group*>(chunk + (first + (i << log_groups)) * Kernel::columns);
    Group columns[Kernel::columns / most];
#pragma unroll
    for (int j = 0; j < Kernel::columns / most; ++j) columns[j] = from[j];
#pragma unroll
    for (int j = 0; j < Kernel::vector / Kernel::group; ++j) {
      Accumulator rows[Kernel::group];
      widen_group(vectors[i], j, e4m3, rows);
#pragma unroll
      for (int row = 0; row < Kernel::group; ++row)
#pragma unroll
        for (int column = 0; column < Kernel::columns; ++column) {
          auto& sum = sums[j * Kernel::group + row][column];
          sum = fma(rows[row], columns[column / most].values[column % most], sum);
        }
    }
  }
}

// Brings the chunk of the short operand that begins at `k` to shared memory. Whole steps: zeros behind the end.
template <typename Kernel>
__device__ __forceinline__ void fill_chunk(const NarrowParams& params, const NarrowOrder& order, int64_t k, int step,
                                           typename Kernel::Accumulator* chunk) {
  const NarrowTile tile(params, Kernel::columns);
  const KernelProblem& problem = params.problem;
  const bool long_is_b = params.plan.long_is_b;
  const bool e4m3 = (long_is_b ? problem.dtype : problem.b_dtype) == DType::kFloat8E4M3;
  const typename Kernel::Short source(long_is_b ? problem.a : problem.b, tile.batch, tile.column_begin, tile.columns,
                                      params.plan.chunk, e4m3);
  const int64_t left = problem.k - k;
  const int count = left < Kernel::Short::kMost ? (static_cast<int>(left) + step - 1) & -step : Kernel::Short::kMost;
  source.fill(chunk, order, k, count, problem.k);
}

// One thread's part of the sums, over all of its k. Loads run one step ahead of the products.
template <typename Kernel>
__device__ __forceinline__ void walk_k(const NarrowParams& params, const NarrowOrder& order,
                                       typename Kernel::Accumulator* chunk, typename Kernel::Sums& sums) {
  const NarrowPlan& plan = params.plan;
  const KernelProblem& problem = params.problem;
  const bool e4m3 = (plan.long_is_b ? problem.b_dtype : problem.dtype) == DType::kFloat8E4M3;
  const int log_groups = plan.log_threads - plan.log_line;
  const int step = Kernel::along_k ? Kernel::vector << plan.log_line : Kernel::strands << log_groups;  // of k
  const NarrowTile tile(params, Kernel::columns);
  typename Kernel::Long reader(plan.long_is_b ? problem.b : problem.a, plan, params.steps, tile.batch, tile.row_begin,
                               tile.rows_left);
  typename Kernel::Vector now[Kernel::strands], next[Kernel::strands];
#pragma unroll 1
  for (int64_t k = -step; k < problem.k; k += step) {
#pragma unroll
    for (int i = 0; i < Kernel::strands; ++i) now[i] = next[i];
    reader.load(next, problem.k - k - step);
    if (k < 0) continue;  // nothing has come yet
    const int begin = static_cast<int>(k) & (Kernel::Short::kMost - 1);
    if (begin == 0) {
      if (k > 0) __syncthreads();  // the chunk before has been read
      fill_chunk<Kernel>(params, order, k, step, chunk);
      __syncthreads();  // the whole chunk is there
    }
    if constexpr (Kernel::along_k) {
      multiply_along_k<Kernel>(now, chunk, begin, plan, e4m3, sums);
    } else {
      multiply_across_k<Kernel>(now, chunk, begin, plan.log_line, log_groups, e4m3, sums);
    }
  }
}

// Adds up the threads' sums, in the same order every time: those of a warp's lanes, then those of the warps. `total` is
// [columns][rows of the CTA], rows in the order in which they were loaded.
template <typename Kernel>
__device__ __forceinline__ void add_threads(const NarrowPlan& plan, typename Kernel::Accumulator* total,
                                            typename Kernel::Sums& sums) {
  const int lanes = plan.log_line < 5 ? 1 << plan.log_line : 32;  // of a warp, along a line
  const int first = Kernel::along_k ? lanes / 2 : 16, last = Kernel::along_k ? 1 : lanes;
#pragma unroll 1
  for (int lane = first; lane >= last; lane /= 2) {
#pragma unroll
    for (int i = 0; i < Kernel::sum_rows; ++i)
#pragma unroll
      for (int j = 0; j < Kernel::columns; ++j) sums[i][j] += __shfl_xor_sync(0xffffffff, sums[i][j], lane);
  }
  const int thread = static_cast<int>(threadIdx.x), line_thread = thread & ((1 << plan.log_line) - 1);
  const int group = thread >> plan.log_line, warps_of_line = plan.log_line < 5 ? 1 : 1 << (plan.log_line - 5);
  const int turns = Kernel::along_k ? warps_of_line : (1 << plan.log_threads) / (32 * warps_of_line);
  const int turn = Kernel::along_k ? line_thread / 32 : thread / (32 * warps_of_line);
  const bool has_sums = thread % 32 % (Kernel::along_k ? lanes : 32) < (Kernel::along_k ? 1 : lanes);
#pragma unroll 1
  for (int now = 0; now < turns; ++now) {
    __syncthreads();  // the last chunk has been read, or the warps before have added theirs
    if (now != turn || !has_sums) continue;
#pragma unroll
    for (int i = 0; i < Kernel::sum_rows; ++i) {
      if (Kernel::along_k && i >= plan.strands) continue;
      const int row = Kernel::along_k
                          ? group + (i << (plan.log_threads - plan.log_line))
                          : ((i / Kernel::group << plan.log_line) + line_thread) * Kernel::group + i % Kernel::group;
#pragma unroll
      for (int j = 0; j < Kernel::columns; ++j) {
        auto& place = total[(j << plan.log_rows) + row];
        place = now == 0 ? sums[i][j] : place + sums[i][j];
      }
    }
  }
  __syncthreads();  // all sums are there
}

// Stores one value as the output's dtype, which dense products have; `at` counts elements.
template <typename Accumulator>
__device__ __forceinline__ void store_value(void* out, DType dtype, int64_t at, Accumulator value) {
  if constexpr (sizeof(Accumulator) == 4) {
    if (dtype == DType::kFloat16) {
      static_cast<__half*>(out)[at] = round_to<__half>(value);
      return;
    }
    if (dtype == DType::kBFloat16) {
      static_cast<__nv_bfloat16*>(out)[at] = round_to<__nv_bfloat16>(value);
      return;
    }
  }
  static_cast<Accumulator*>(out)[at] = value;
}

// Takes the sums to the output: bias, activation, one rounding. Neighbouring threads have neighbouring elements.
template <typename Kernel>
__device__ __forceinline__ void store_sums(const NarrowParams& params, const NarrowOrder& order,
                                           const typename Kernel::Accumulator* total) {
  using Accumulator = typename Kernel::Accumulator;
  const NarrowTile tile(params, Kernel::columns);
  const KernelProblem& problem = params.problem;
  const NarrowPlan& plan = params.plan;
  const Output& out = problem.out;
  const Epilogue& epilogue = problem.epilogue;
  const int64_t stride_row = plan.long_is_b ? out.stride_n : out.stride_m;
  const int64_t stride_column = plan.long_is_b ? out.stride_m : out.stride_n;
  const bool rows_first = stride_row <= stride_column;
  const int64_t begin = tile.batch * out.stride_batch + tile.row_begin * stride_row + tile.column_begin * stride_column;
  const int count = Kernel::columns << plan.log_rows;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int row = rows_first ? i & ((1 << plan.log_rows) - 1) : i / Kernel::columns;
    const int column = rows_first ? i >> plan.log_rows : i % Kernel::columns;
    if (row >= tile.rows_left || column >= tile.columns) continue;
    Accumulator sum = total[(column << plan.log_rows) + (Kernel::along_k ? row : order.place(row))];
    if (epilogue.bias != nullptr)
      sum += load_bias<Accumulator>(epilogue, plan.long_is_b ? tile.row_begin + row : tile.column_begin + column);
    const int64_t at = begin + row * stride_row + column * stride_column;
    if (problem.pre_activation != nullptr) store_value(problem.pre_activation, problem.out_dtype, at, sum);
    store_value(problem.out.data, problem.out_dtype, at,
                activate(sum, epilogue.activation, static_cast<Accumulator>(epilogue.slope)));
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(kNarrowThreads, kNarrowCtasPerSm)
    narrow(const __grid_constant__ NarrowParams params) {
  auto* shared = reinterpret_cast<typename Kernel::Accumulator*>(ptx::DynamicShared<128>{}.begin);
  if constexpr (std::is_same_v<typename Kernel::Element, float>)  // only float32 products are computed under a flag
    if (!holds(params.problem.device_flag)) return;
  const NarrowOrder order{params.plan.log_line, params.plan.log_unit, log2_floor(Kernel::vector),
                          log2_floor(Kernel::group)};
  typename Kernel::Sums sums = {};
  walk_k<Kernel>(params, order, shared, sums);
  add_threads<Kernel>(params.plan, shared, sums);
  store_sums<Kernel>(params, order, shared);
}

}  // namespace tileon::sm80
