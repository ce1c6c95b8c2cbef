// From the sums of codes to the product, by float32 scales: the AccumulatorScale of operands with a scale for each row.
// That of operands with a scale for each block of 128 k: block_scale.cuh.
//
// A sum is multiplied by the product of its row's scale and its column's. Where all scales are ordinary that product
// is neither infinite nor subnormal in float32; elsewhere it is made in double, in which no two scales can leave the
// range.
#pragma once

#include <cstdint>

#include "cuda/sm90/epilogue/accumulator_scale.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// Zero, or from 2^-60 up to 2^60.
__device__ __forceinline__ bool is_ordinary_scale(float scale) {
  constexpr uint32_t lowest = 67u << 23, highest = 187u << 23;
  const uint32_t magnitude = __float_as_uint(scale) & 0x7fffffff;
  return magnitude - lowest <= highest - lowest || magnitude == 0;
}

// `value` times both scales, rounded once.
__device__ __forceinline__ float times_exactly(float value, float first, float second) {
  return static_cast<float>(static_cast<double>(value) * (static_cast<double>(first) * static_cast<double>(second)));
}

// Sums, each scaled when it is stored, while the sums before it are on their way to memory. `kExactly` takes any
// scales; without it they are ordinary.
template <bool kExactly, typename Sum, int kBlocks, int kCount>
struct FactorResults {
  const Sum (&sums)[kBlocks][kCount];
  const float* column_factors;  // of this thread's first two columns; of its next two eight further
  const float (&rows)[2 * kBlocks];
  const float* global_scale;
  bool are_ordinary;

  __device__ __forceinline__ bool is_ordinary() const { return are_ordinary; }
  __device__ __forceinline__ FactorResults<true, Sum, kBlocks, kCount> exactly() const {
    return {sums, column_factors, rows, global_scale, are_ordinary};
  }

  template <int kBlock, int kBegin, int kColumns>
  __device__ __forceinline__ ScaledColumns<kColumns> columns() const {
    ScaledColumns<kColumns> scaled;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const float2 pair = *reinterpret_cast<const float2*>(column_factors + kBegin + j * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        auto sum = static_cast<float>(sums[kBlock][kBegin / 2 + j * 4 + i]);
        if (kExactly) ptx::pin(sum);  // else all sums become doubles ahead of the loop that stores them
        const float row = rows[2 * kBlock + i / 2], column = i % 2 == 0 ? pair.x : pair.y;
        scaled.values[j * 4 + i] = kExactly ? times_exactly(sum, row, column) : sum * (row * column);
      }
    }
    if (global_scale != nullptr) {
      const float factor = *global_scale;
#pragma unroll
      for (float& value : scaled.values) value *= factor;
    }
    return scaled;
  }
};

// A thread has two rows of each 64 and two of every eight columns, wgmma's. The columns' scales go through shared
// memory; all scales are read from global memory before the main loop.
template <TileConfig kTile, typename Out_>
class FactorScale {
 public:
  using Out = Out_;
  using Params = FactorParams;
  static constexpr int row_blocks = kTile.consumer_rows() / 64;
  static constexpr bool is_in_need_of_registers = true;

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}

  // `row` is the first of the warp's 16, `column` of the tile's.
  __device__ __forceinline__ void read(const Params& params, int row, int column) {
    const KernelProblem& problem = params.problem;
    const OperandFactors& of_rows = kTile.swapped() ? params.b : params.a;
    const OperandFactors& of_columns = kTile.swapped() ? params.a : params.b;
    const int64_t rows = kTile.swapped() ? problem.n : problem.m, columns = kTile.swapped() ? problem.m : problem.n;
#pragma unroll
    for (int i = 0; i < 2 * row_blocks; ++i) {
      const int this_row = row_of_thread(row, i);
      rows_[i] = this_row < rows ? *of_rows.of_row(this_row) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kColumnsOfThread; ++i) {
      const int this_column = column + static_cast<int>(threadIdx.x % 128) + 128 * i;
      columns_[i] = this_column < columns ? *of_columns.of_row(this_column) : 0.0f;
    }
  }

  // Collective for the warpgroup: returns when all columns' scales lie in shared memory.
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared& shared, int consumer) const {
    float* columns = shared.column_factors(consumer) + threadIdx.x % 128;
    ptx::barrier_sync(consumer_barrier(consumer), 128);  // the last tile's scales have been read
#pragma unroll
    for (int i = 0; i < kColumnsOfThread; ++i) columns[128 * i] = columns_[i];
    ptx::barrier_sync(consumer_barrier(consumer), 128);
  }

  template <typename Shared, typename Sum, int kCount>
  __device__ __forceinline__ FactorResults<false, Sum, row_blocks, kCount> results(
      const Params& params, const Shared& shared, int consumer, const Sum (&sums)[row_blocks][kCount]) const {
    const float* columns = shared.column_factors(consumer);
    bool are_ordinary = true;
#pragma unroll
    for (const float row : rows_) are_ordinary &= is_ordinary_scale(row);
#pragma unroll
    for (int i = 0; i < (kTile.mma_columns() + 31) / 32; ++i)
      are_ordinary &= is_ordinary_scale(columns[threadIdx.x % 32 + 32 * i]);
    are_ordinary = !__any_sync(0xffffffffu, !are_ordinary);
    return {sums, columns + threadIdx.x % 4 * 2, rows_, params.global_scale, are_ordinary};
  }

 private:
  static constexpr int kColumnsOfThread = (kTile.mma_columns() + 127) / 128;
  static_assert(kColumnsOfThread * 128 <= kMaxColumns);

  float rows_[2 * row_blocks];
  float columns_[kColumnsOfThread];
};

}  // namespace tileon::sm90
