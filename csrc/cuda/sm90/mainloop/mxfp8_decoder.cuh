// The decoder of a weight of codes of e4m3 with a scale of e8m0 a block (mma_decoded_weight.cuh). bfloat16 holds every
// number but codes under scales below 2^-124: the warp that meets one says so.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/layout/moved_scale.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/mma_decoded_weight.cuh"
#include "cuda/sm90/mainloop/stage_codes.cuh"
#include "cuda/sm90/mainloop/stage_scales.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class Mxfp8Decoder {
  using Scale = typename Kernel::AccumulatorScale;
  using Fragments = typename DecodedPart<Kernel>::Fragments;
  static constexpr int kSteps = DecodedPart<Kernel>::steps;
  static constexpr int kStepsOfScale = vec_of(Scale::type) / kMmaK;
  static_assert(std::is_same_v<typename Kernel::Element, __nv_bfloat16>);
  static_assert(Scale::code == DType::kFloat8E4M3 && Scale::type == ScaleType::kE8M0);
  static_assert(Kernel::config.block_k == Scale::kBlockK);

 public:
  static constexpr bool loads_behind_products = false;
  static constexpr bool has_other_sums = false;

  __device__ __forceinline__ Mxfp8Decoder(const Scale& scale, int first_row)
      : scale_(scale), codes_(first_row), scales_(scale) {}

  __device__ __forceinline__ void load(uint32_t stage, int part) {
    codes_.load(stage, part);
    if (part == 0) words_ = scales_.next(stage);
  }

  __device__ __forceinline__ void decode(int part, Fragments& fragments) {
    if (part == 0) is_quick_ = scales_.template are_ordinary<MovedE4M3Scale>(words_);
    decode_ordinary(part, fragments);
    if (!is_quick_) decode_any(part, fragments);
  }

  __device__ __forceinline__ bool before_products(int, int, Fragments&, typename Kernel::Sums&) { return true; }
  __device__ __forceinline__ void finish(typename Kernel::Sums& sums) const { StageCodes<Kernel>::put_nan(nan_, sums); }

 private:
  // Of a word of scales.
  static __device__ __forceinline__ int column_of(int part, int step) { return (part * kSteps + step) / kStepsOfScale; }

  __device__ __forceinline__ void decode_ordinary(int part, Fragments& fragments) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) fragments[step][i] = move_pair_e4m3(codes_.pair(step, i));
#pragma unroll
      for (int i = 0; i < 2; ++i) nan_[i].look_at(fragments[step][i], fragments[step][i + 2]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        fragments[step][i] =
            multiply_pair(fragments[step][i], MovedE4M3Scale::ordinary(words_.pair(i % 2, column_of(part, step))));
    }
  }

  // Whatever the scales are.
  __device__ __forceinline__ void decode_any(int part, Fragments& fragments) const {
    const ScaleWords words = scales_.within_k(words_);
    bool loses = false;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const MovedE4M3Scale of_row(words.of_row[i % 2] >> 8 * column_of(part, step) & 0xff);
        loses |= of_row.may_lose(codes_.pair(step, i));
        fragments[step][i] = of_row.multiply_rest(of_row.multiply(move_pair_e4m3(codes_.pair(step, i))));
      }
    if (__any_sync(0xffffffffu, loses)) scale_.report_loss();
  }

  const Scale& scale_;
  StageCodes<Kernel> codes_;
  StageScales<Kernel> scales_;
  ScaleWords words_;
  bool is_quick_;  // the stage
  MetNaN<true> nan_[2];
};

template <typename Kernel>
class Mxfp8WeightMainLoop : public DecodedWeightMainLoop<Kernel, Mxfp8Decoder<Kernel>> {};

}  // namespace tileon::sm90
