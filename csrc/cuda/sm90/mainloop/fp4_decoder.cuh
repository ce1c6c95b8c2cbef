// The decoder of a weight of codes of e2m1 with a scale a block (mma_decoded_weight.cuh). Every decoded number is exact
// in bfloat16, whatever its scale; float16 holds those under a scale of e4m3, and under one of e8m0 within a range: the
// warp that meets another says so.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/moved_scale.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/mma_decoded_weight.cuh"
#include "cuda/sm90/mainloop/stage_scales.cuh"

namespace tileon::sm90 {

// A pair of codes, the first in the lower half of the byte, as bfloat16 times 2^-126, or as float16 times 2^-14.
template <typename Element>
__device__ __forceinline__ uint32_t move_pair_e2m1(uint32_t byte) {
  if (std::is_same_v<Element, __half>) return (byte * 0x00200200 & 0x0e000e00) | (byte * 0x01001000 & 0x80008000);
  return (byte * 0x00040040 & 0x01c001c0) | (byte * 0x01001000 & 0x80008000);
}

// What a warp needs to say that it has lost something: nothing where it cannot.
template <typename Scale, bool kMayLose>
struct LossReport {
  __device__ __forceinline__ explicit LossReport(const Scale&) {}
  __device__ __forceinline__ void report(bool) const {}
};
template <typename Scale>
struct LossReport<Scale, true> {
  __device__ __forceinline__ explicit LossReport(const Scale& scale_) : scale(scale_) {}
  __device__ __forceinline__ void report(bool loses) const {
    if (__any_sync(0xffffffffu, loses)) scale.report_loss();
  }
  const Scale& scale;
};

template <typename Kernel>
class Fp4Decoder {
  using Scale = typename Kernel::AccumulatorScale;
  using Element = typename Kernel::Element;
  using RowScale = MovedScale<Element, Scale::type>;
  using Fragments = typename DecodedPart<Kernel>::Fragments;
  static constexpr int kSteps = DecodedPart<Kernel>::steps;
  static constexpr int kChunks = kSteps / 2;  // of sixteen bytes of codes
  static_assert(Scale::type == ScaleType::kE8M0 || Scale::kColumns == 4);
  static_assert(Kernel::config.block_k == Scale::kBlockK && Kernel::TileB::line_bytes == 2 * kChunkBytes);

 public:
  static constexpr bool loads_behind_products = true;
  static constexpr bool has_other_sums = false;

  __device__ __forceinline__ Fp4Decoder(const Scale& scale, int first_row)
      : place_(Kernel::rows_offset + place_of(first_row)), scales_(scale), losses_(scale) {}

  __device__ __forceinline__ void load(uint32_t stage, int part) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const uint32_t from = stage + (place_ ^ (part * kChunks + chunk) * kChunkBytes);
      ptx::load_shared_words(codes_[chunk][0], from);
      ptx::load_shared_words(codes_[chunk][1], from + 8 * Kernel::TileB::line_bytes);
    }
    if (part == 0) words_ = scales_.next(stage);
  }

  __device__ __forceinline__ void decode(int part, Fragments& fragments) {
    if (part == 0) is_quick_ = scales_.template are_ordinary<RowScale>(words_);
    decode_by<true>(part, fragments);
    if (!is_quick_) decode_by<false>(part, fragments);
  }

  __device__ __forceinline__ bool before_products(int, int, Fragments&, typename Kernel::Sums&) { return true; }
  __device__ __forceinline__ void finish(typename Kernel::Sums&) const {}

 private:
  // Where this thread's first row lies among the codes of a stage, of which TMA exchanges the chunks of every other
  // four rows.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    return row * Kernel::TileB::line_bytes + (row / 4 % 2) * kChunkBytes;
  }

  // `kOrdinary`: whether all scales of the warp are ordinary.
  template <bool kOrdinary>
  __device__ __forceinline__ void decode_by(int part, Fragments& fragments) const {
    const ScaleWords words = kOrdinary ? words_ : scales_.within_k(words_);
    bool loses = false;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = codes_[step / 2][i % 2][step % 2 * 2 + i / 2];
        const uint32_t pair = move_pair_e2m1<Element>(ptx::prmt(word, 0, 0x4440 | threadIdx.x % 4));
        const int column = (part * kSteps + step) * kMmaK / vec_of(Scale::type);
        if constexpr (kOrdinary) {
          fragments[step][i] = multiply_pair<Element>(pair, RowScale::ordinary(words.pair(i % 2, column)));
        } else {
          const RowScale scale(words.of_row[i % 2] >> 8 * column & 0xff);
          fragments[step][i] = scale.multiply_rest(scale.multiply(pair));
          if constexpr (RowScale::may_lose_any) loses |= scale.may_lose(word);
        }
      }
    if (!kOrdinary) losses_.report(loses);
  }

  uint32_t place_;
  StageScales<Kernel> scales_;
  uint32_t codes_[kChunks][2][4];  // 32 of each of this thread's rows
  ScaleWords words_;
  bool is_quick_;  // the stage
  [[no_unique_address]] LossReport<Scale, RowScale::may_lose_any> losses_;
};

template <typename Kernel>
class Fp4WeightMainLoop : public DecodedWeightMainLoop<Kernel, Fp4Decoder<Kernel>> {};

}  // namespace tileon::sm90
