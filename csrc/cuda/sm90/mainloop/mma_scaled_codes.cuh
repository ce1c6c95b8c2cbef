// The main loop of products whose weight has codes of e4m3 with a scale of e8m0 a block: as that of weights with
// float32 scales (mma_weight_codes.cuh), but each code is multiplied by its scale on its way to wgmma's first operand.
// bfloat16 holds every such number but for codes under scales below 2^-124: the warp that meets one says so.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/common/decode.cuh"
#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/moved_scale.cuh"
#include "cuda/sm90/mainloop/kernel.cuh"
#include "cuda/sm90/mainloop/scale_queue.cuh"
#include "cuda/sm90/mainloop/stage_codes.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class ScaledCodesMainLoop {
  using TileA = typename Kernel::TileA;
  using Scale = typename Kernel::AccumulatorScale;
  using OfStage = StageCodes<Kernel>;
  using Codes = typename OfStage::Codes;
  using RowNaN = MetNaN<true>;
  static constexpr int kSteps = OfStage::kSteps, kStepsAtOnce = OfStage::kStepsAtOnce;
  static constexpr int kStepsOfScale = vec_of(Scale::type) / kMmaK, kScalesAtOnce = kStepsAtOnce / kStepsOfScale;
  static_assert(Scale::code == DType::kFloat8E4M3 && Scale::type == ScaleType::kE8M0);
  static_assert(Kernel::config.block_k == Scale::kBlockK && kScalesAtOnce * kStepsOfScale == kStepsAtOnce);

 public:
  // As PlainMainLoop's. A stage is multiplied in two parts, and the codes of a part are read while the part before is
  // multiplied.
  template <typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t place = Kernel::rows_offset + OfStage::place_of(first_row);
    RowNaN nan[2];
    Codes codes;
    ScaleQueue<Scale> scales(scale, blocks);
    pipeline.wait_until_full(at);
    OfStage::load(pipeline.data(at.stage), place, 0, codes);
    int previous = -1;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      const int stage = at.stage;
      at.advance(pipeline.stages());
      const ScaleWords words = scales.current();
      constexpr uint32_t kBytes = Scale::kColumns == 4 ? 0xffffffff : 0xffff;
      const bool are_ordinary = MovedE4M3Scale::are_ordinary(words.of_row[0], kBytes) &&
                                MovedE4M3Scale::are_ordinary(words.of_row[1], kBytes);
      const bool is_quick = __all_sync(0xffffffffu, are_ordinary);
#pragma unroll
      for (int first = 0; first < kSteps; first += kStepsAtOnce) {
        Fragments fragments;
        decode_ordinary(codes, words, first, nan, fragments);
        if (!is_quick) decode_any(codes, words, first, scale, fragments);
        issue(pipeline.data(stage), first, fragments, first > 0 || block > 0, sums);
        if (first + kStepsAtOnce < kSteps) {
          OfStage::load(pipeline.data(stage), place, first + kStepsAtOnce, codes);
        } else if (block + 1 < blocks) {
          pipeline.wait_until_full(at);
          OfStage::load(pipeline.data(at.stage), place, 0, codes);
        }
        ptx::wgmma_wait<1>();  // the part before this one is done: its fragments are free, and so is a stage before
        if (first == 0 && elected && previous >= 0) pipeline.release(previous);
      }
      scales.advance();
      previous = stage;
    }
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
    OfStage::put_nan(nan, sums);
  }

 private:
  // The fragments of a part: of a step the low row's first pair, the high row's, and both rows' second pairs.
  using Fragments = uint32_t[kStepsAtOnce][4];

  static __device__ __forceinline__ uint32_t byte_of(uint32_t word, int step) {
    return word >> 8 * (step / kStepsOfScale) & 0xff;
  }

  // `first` is the part's first step.
  static __device__ __forceinline__ void decode_ordinary(const Codes& codes, const ScaleWords& words, int first,
                                                         RowNaN (&nan)[2], Fragments& fragments) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      nan[0].look_at(codes.low[i]);
      nan[1].look_at(codes.high[i]);
      move_e4m3(codes.low[i], fragments[i][0], fragments[i][2]);
      move_e4m3(codes.high[i], fragments[i][1], fragments[i][3]);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        fragments[i][j] =
            multiply_pair(fragments[i][j], MovedE4M3Scale::ordinary(byte_of(words.of_row[j % 2], first + i)));
    }
  }

  // Whatever the scales are.
  static __device__ __forceinline__ void decode_any(const Codes& codes, const ScaleWords& words, int first,
                                                    const Scale& scale, Fragments& fragments) {
    bool loses = false;
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      const MovedE4M3Scale of_low(byte_of(words.of_row[0], first + i)), of_high(byte_of(words.of_row[1], first + i));
      loses |= of_low.may_lose(codes.low[i]) | of_high.may_lose(codes.high[i]);
      move_e4m3(codes.low[i], fragments[i][0], fragments[i][2]);
      move_e4m3(codes.high[i], fragments[i][1], fragments[i][3]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const MovedE4M3Scale& of_row = j % 2 == 0 ? of_low : of_high;
        fragments[i][j] = of_row.multiply_rest(of_row.multiply(fragments[i][j]));
      }
    }
    if (__any_sync(0xffffffffu, loses)) scale.report_loss();
  }

  static __device__ __forceinline__ void issue(uint32_t stage, int first, const Fragments& fragments, int accumulate,
                                               typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i)
      ptx::wgmma_m64k16<__nv_bfloat16, Kernel::columns>(sums[0], fragments[i], a + TileA::offset(0, first + i) / 16,
                                                        i > 0 ? 1 : accumulate);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
