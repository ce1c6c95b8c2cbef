// The AccumulatorScales of a weight that the main loop decodes or folds: of one with scales of blocks, where a stage
// has the scales of a thread's two rows (mainloop/stage_scales.cuh), and the global scale; of one with float32 scales
// (mainloop/codes_decoder.cuh), those of rows, which are applied here, and those of blocks, which the main loop
// applies.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/accumulator_scale.cuh"
#include "cuda/sm90/epilogue/factor_scale.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/moved_scale.cuh"
#include "cuda/sm90/mainloop/kernel.cuh"
#include "cuda/sm90/mainloop/unit_of_sums.cuh"

namespace tileon::sm90 {

// `kCode` is what the weight's codes are, Element what they become.
template <typename Element, DType kCode, ScaleType kScale, TileConfig kTile, typename Out_>
class WeightScale {
  static constexpr bool kHasE4M3 = kCode == DType::kFloat8E4M3;

 public:
  using Out = Out_;
  using Params = WeightParams;
  static constexpr DType code = kCode;
  static constexpr ScaleType type = kScale;
  static constexpr bool is_in_need_of_registers = true;
  static constexpr int kBlockK = kTile.block_k;
  static constexpr int kColumns = kBlockK / vec_of(kScale);  // scales of a row in a stage
  static_assert(kTile.tile_n == kScaleBlockRows, "a packed block has the scales of a tile's rows");
  static constexpr int kWarps = decoding_warps(kTile);

  // By each of the consumers' warps: nothing has been lost yet.
  static __device__ __forceinline__ void summarize(const Params& params, int warp, int) {
    if constexpr (kMayLose)
      if (threadIdx.x % 32 == 0) params.lost[cta_number() * kWarps + warp] = 0;
  }

  // `row` is the first of the warp's 16 rows of the weight, `first_block` the stage of k that is multiplied first,
  // `m_begin` the tile's first row of a. Rows behind the last one have its scales.
  __device__ __forceinline__ void read(const Params& params, int row, int first_block, int m_begin) {
    first_block_ = first_block;
    m_begin_ = m_begin;
    lost_ = params.lost;
    columns_ = params.columns;
    const int last = static_cast<int>(params.problem.n) - 1;
    constexpr ScaleStrides packed = packed_scales(kScaleBlockCols);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      places_[i] = static_cast<uint32_t>(packed.of_row(min(row_of_thread(row, i), last) % kScaleBlockRows));
  }
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared&, int) const {}

  __device__ __forceinline__ int first_block() const { return first_block_; }
  __device__ __forceinline__ int columns_from_first_block() const { return columns_ - first_block_ * kColumns; }
  // Where a packed block has the scales of this thread's row `i`.
  __device__ __forceinline__ uint32_t place_of_row(int i) const { return places_[i]; }

  // By a warp that has met elements of which Element lost something.
  __device__ __forceinline__ void report_loss() const {
    if (threadIdx.x % 32 == 0) lost_[cta_number() * kWarps + threadIdx.x / 32] = 1;
  }

  template <typename Shared, int kCount>
  __device__ __forceinline__ PlainResults<1, kCount> results(const Params& params, const Shared&, int,
                                                             float (&sums)[1][kCount]) const {
    constexpr float lacked = kHasE4M3 ? 1 : MovedScale<Element, kScale>::kLackedFactor;
    if (lacked != 1.0f) {
#pragma unroll
      for (float& sum : sums[0]) sum *= lacked;
    }
    if (params.global_scale_stride == 0) {
      multiply_all(sums, params.global_scale);
    } else {
      multiply_by_rows_of_a(params, sums[0]);
    }
    return {sums};
  }

 private:
  static constexpr bool kMayLose = kHasE4M3 || MovedScale<Element, kScale>::may_lose_any;

  // Each row of a, wgmma's columns, has a global scale of its own.
  template <int kCount>
  __device__ __forceinline__ void multiply_by_rows_of_a(const Params& params, float (&sums)[kCount]) const {
    const int first = m_begin_ + static_cast<int>(threadIdx.x) % 4 * 2;
    const int last = static_cast<int>(params.problem.m) - 1;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i % 4 >= 2) continue;
      const float factor = params.global_scale[min(first + i / 4 * 8 + i % 4, last) * params.global_scale_stride];
      sums[i] *= factor;
      sums[i + 2] *= factor;
    }
  }

  int first_block_;  // of k
  int m_begin_;      // of the tile
  int columns_;      // scales of a row
  uint32_t places_[2];
  uint32_t* lost_;
};

// Of a float32 scale a row. `kCode` is what the weight's codes are.
template <DType kCode, typename Out_>
class WeightRowScale {
 public:
  using Out = Out_;
  using Params = SharedFactorParams;
  template <typename Kernel>
  using Unit = OneUnit<Kernel>;
  static constexpr DType code = kCode;
  static constexpr bool is_in_need_of_registers = true;

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}

  // `row` is the first of the warp's 16 rows of the weight.
  __device__ __forceinline__ void read(const Params& params, int row, int, int) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int this_row = row_of_thread(row, i);
      rows_[i] = this_row < params.problem.n ? *params.b.of_row(this_row) : 0.0f;
    }
  }
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared&, int) const {}

  template <typename Shared, int kCount>
  __device__ __forceinline__ PlainResults<1, kCount> results(const Params& params, const Shared&, int,
                                                             float (&sums)[1][kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[0][i] *= rows_[i / 2 % 2];
    multiply_all(sums, params.global_scale);
    return {sums};
  }

 private:
  float rows_[2];
};

// Of e4m3 with a float32 scale for each 128 k of a row. The sums come scaled from the main loop, but for the global
// scale.
template <TileConfig kTile, typename Out_>
class WeightBlockScale {
 public:
  using Out = Out_;
  using Params = WeightBlocksParams;
  template <typename Kernel>
  using Unit = UnitOfSums<Kernel>;
  static constexpr DType code = DType::kFloat8E4M3;
  static constexpr bool is_in_need_of_registers = true;

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}

  // `row` is the first of the warp's 16 rows of the weight, `first_block` the stage of k that is multiplied first. Rows
  // behind the last one have its scales: their products are not stored.
  __device__ __forceinline__ void read(const Params& params, int row, int first_block, int) {
    const int last_row = static_cast<int>(params.problem.n) - 1;
    first_block_ = first_block;
    last_ = static_cast<int>((params.problem.k - 1) / kFloat32ScaleBlock);
    step_ = params.b.step;
    aside_ = params.aside;
#pragma unroll
    for (int i = 0; i < 2; ++i) rows_[i] = params.b.of_row(min(row_of_thread(row, i), last_row));
  }
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared&, int) const {}

  __device__ __forceinline__ int first_block() const { return first_block_; }

  // The scale of this thread's row `i`, and of block `block` of k; of blocks behind the last one its scale.
  __device__ __forceinline__ float of_row(int i, int block) const { return rows_[i][min(block, last_) * step_]; }

  // A row's later scales come from memory, which takes several stages' time.
  __device__ __forceinline__ void prefetch(int block) const {
    if (block > last_) return;
#pragma unroll
    for (const float* row : rows_) ptx::prefetch_l2(row + block * step_);
  }

  // Where this thread's sums may wait, four and four, 128 places apart.
  __device__ __forceinline__ float4* aside() const {
    constexpr int kOfConsumer = kTile.tile_m / 8 * 128;
    return aside_ + (cta_number() * kTile.consumers + static_cast<int>(threadIdx.x) / 128) * kOfConsumer +
           threadIdx.x % 128;
  }

  template <typename Shared, int kCount>
  __device__ __forceinline__ PlainResults<1, kCount> results(const Params& params, const Shared&, int,
                                                             float (&sums)[1][kCount]) const {
    multiply_all(sums, params.global_scale);
    return {sums};
  }

 private:
  int first_block_;  // of k
  int last_;         // scale of a row
  int64_t step_;     // from scale to scale
  const float* rows_[2];
  float4* aside_;
};

// Of codes that the main loop folds (mainloop/fold_decoder.cuh), and a folded `a`: a float32 scale a row of both.
template <DType kCode, TileConfig kTile, typename Out_>
class FoldedWeightScale : public FactorScale<kTile, Out_> {
 public:
  using Params = FoldedWeightParams;
  static constexpr DType code = kCode;

  // `row` is the first of the warp's 16 rows of the weight, `m_begin` the tile's first row of a.
  __device__ __forceinline__ void read(const Params& params, int row, int, int m_begin) {
    FactorScale<kTile, Out_>::read(params, row, m_begin);
    stages_of_sums_ = params.stages_of_sums;
  }

  // After so many stages sums leave the tensor core.
  __device__ __forceinline__ int stages_of_sums() const { return stages_of_sums_; }

 private:
  int stages_of_sums_;
};

}  // namespace tileon::sm90
