// The AccumulatorScales of a weight that the main loop decodes: of one with scales of blocks
// (mainloop/mma_decoded_weight.cuh), the scales of a thread's two rows, which it reads where they lie, and the global
// scale; of one with a float32 scale for each row (mainloop/mma_weight_codes.cuh), these.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/accumulator_scale.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/moved_scale.cuh"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

template <ScaleType kScale, typename Out_>
class WeightScale {
 public:
  using Out = Out_;
  using Params = WeightParams;
  static constexpr ScaleType type = kScale;
  static constexpr bool is_in_need_of_registers = true;
  static constexpr int kBlockK = 64;                         // of a stage
  static constexpr int kColumns = kBlockK / vec_of(kScale);  // scales of a row in it

  // A stage's scales, those of a row in one word.
  struct Words {
    uint32_t of_row[2];
  };

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}

  // `row` is the first of the warp's 16 rows of the weight, `first_block` the stage of k that is multiplied first. Rows
  // behind the last one are read as it is.
  __device__ __forceinline__ void read(const Params& params, int row, int first_block) {
    first_block_ = first_block;
    columns_ = params.columns;
    const int last = static_cast<int>(params.problem.n) - 1;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      rows_[i] = params.scale + params.strides.of_row(min(row + static_cast<int>(threadIdx.x % 32) / 4 + 8 * i, last));
#pragma unroll
    for (int block = 1; block < kStagesAhead; ++block) prefetch(first_block + block);
  }
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared&, int) const {}

  // Of the stage that is multiplied as number `stage`; 0 where they lie behind k. Those of a later stage are asked for:
  // from memory they take several stages' time, from L2 less than one's.
  __device__ __forceinline__ Words words(int stage) const {
    using Word = std::conditional_t<kColumns == 2, uint16_t, uint32_t>;
    const int block = first_block_ + stage;
    const int inside = columns_ - block * kColumns;
    prefetch(block + kStagesAhead);
    Words words;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      words.of_row[i] = *reinterpret_cast<const Word*>(rows_[i] + offset_of(block));
      if (inside < kColumns) words.of_row[i] &= (1u << 8 * inside) - 1;
    }
    return words;
  }

  template <typename Shared, int kBlocks, int kCount>
  __device__ __forceinline__ PlainResults<kBlocks, kCount> results(const Params& params, const Shared&, int,
                                                                   float (&sums)[kBlocks][kCount]) const {
    constexpr float lacked = MovedScale<__nv_bfloat16, kScale>::kLackedFactor;
    if (lacked != 1.0f) {
#pragma unroll
      for (auto& block : sums)
#pragma unroll
        for (float& sum : block) sum *= lacked;
    }
    multiply_all(sums, params.global_scale);
    return {sums};
  }

 private:
  static constexpr int kStagesAhead = 8;
  static constexpr int kStagesOfBlock = kScaleBlockCols / kColumns;

  // Of packed scales, whose blocks of four columns lie one behind the other.
  static __device__ __forceinline__ int64_t offset_of(int block) {
    return int64_t{block / kStagesOfBlock} * kScaleBlockBytes + block % kStagesOfBlock * kColumns;
  }

  __device__ __forceinline__ void prefetch(int block) const {
    if (block % kStagesOfBlock != 0 || block * kColumns >= columns_) return;
#pragma unroll
    for (const uint8_t* row : rows_) ptx::prefetch_l2(row + offset_of(block));
  }

  int first_block_;  // of k
  int columns_;      // scales of a row
  const uint8_t* rows_[2];
};

// `kCode` is what the weight's codes are.
template <DType kCode, typename Out_>
class WeightRowScale {
 public:
  using Out = Out_;
  using Params = WeightCodesParams;
  static constexpr DType code = kCode;
  static constexpr bool is_in_need_of_registers = true;

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}

  // `row` is the first of the warp's 16 rows of the weight.
  __device__ __forceinline__ void read(const Params& params, int row, int) {
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

}  // namespace tileon::sm90
