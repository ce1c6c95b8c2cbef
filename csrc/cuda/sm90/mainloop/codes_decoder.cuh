// The decoder of a weight of codes of 8 bits under float32 scales (mma_decoded_weight.cuh): 16 bits hold every code
// exactly. The scales multiply the sums: those of rows, or of the whole, in the end (epilogue/weight_scale.cuh), those
// of blocks where they change (unit_of_sums.cuh).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/mainloop/mma_decoded_weight.cuh"
#include "cuda/sm90/mainloop/stage_codes.cuh"
#include "cuda/sm90/mainloop/unit_of_sums.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class CodesDecoder {
  using Element = typename Kernel::Element;
  using Scale = typename Kernel::AccumulatorScale;
  using Fragments = typename DecodedPart<Kernel>::Fragments;
  static constexpr int kSteps = DecodedPart<Kernel>::steps;
  static constexpr DType kCode = Scale::code;
  static constexpr bool kMayMeetNaN = kCode == DType::kFloat8E4M3 && !std::is_same_v<Element, __half>;
  using Unit = typename Scale::template Unit<Kernel>;

 public:
  static constexpr bool loads_behind_products = false;
  static constexpr bool has_other_sums = false;

  __device__ __forceinline__ CodesDecoder(const Scale& scale, int first_row) : codes_(first_row), unit_(scale) {}

  __device__ __forceinline__ void load(uint32_t stage, int part) { codes_.load(stage, part); }

  __device__ __forceinline__ void decode(int, Fragments& fragments) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (kMayMeetNaN) {
#pragma unroll
        for (int i = 0; i < 4; ++i) fragments[step][i] = move_pair_e4m3(codes_.pair(step, i));
#pragma unroll
        for (int i = 0; i < 2; ++i) nan_[i].look_at(fragments[step][i], fragments[step][i + 2]);
#pragma unroll
        for (int i = 0; i < 4; ++i) fragments[step][i] = multiply_pair(fragments[step][i], k2To120);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) fragments[step][i] = convert_pair<Element, kCode>(codes_.pair(step, i));
      }
    }
  }

  __device__ __forceinline__ bool before_products(int block, int part, Fragments& fragments,
                                                  typename Kernel::Sums& sums) {
    if (!Unit::changes || part > 0) return true;
    pin_part(fragments);  // the compiler may convert behind the branch, between the products, where ptxas adds fences
    if (unit_.changes_at(block)) {
      ptx::wgmma_wait<0>();
      unit_.move_on(sums);
    }
    return true;
  }

  __device__ __forceinline__ void finish(typename Kernel::Sums& sums) const {
    unit_.finish(sums);
    if constexpr (kMayMeetNaN) StageCodes<Kernel>::put_nan(nan_, sums);
  }

 private:
  StageCodes<Kernel> codes_;
  Unit unit_;
  MetNaN<kMayMeetNaN> nan_[2];
};

template <typename Kernel>
class WeightCodesMainLoop : public DecodedWeightMainLoop<Kernel, CodesDecoder<Kernel>> {};

}  // namespace tileon::sm90
