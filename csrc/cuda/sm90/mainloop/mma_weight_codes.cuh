// The main loop of products whose weight alone has scales, codes of 8 bits under float32 scales: the consumers convert
// the codes into registers, which are the rows of wgmma's first operand, while the tensor core multiplies what they
// converted before; `a`, of 16 bits, is the second operand and holds every code exactly. The scales multiply the sums:
// those of rows, or of the whole, in the end (epilogue/weight_scale.cuh), those of blocks where they change
// (mainloop/unit_of_sums.cuh).
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/codes_of_8_bits.cuh"
#include "cuda/sm90/mainloop/kernel.cuh"
#include "cuda/sm90/mainloop/stage_codes.cuh"
#include "cuda/sm90/mainloop/unit_of_sums.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class WeightCodesMainLoop {
  using TileA = typename Kernel::TileA;
  using Element = typename Kernel::Element;
  using OfStage = StageCodes<Kernel>;
  using Codes = typename OfStage::Codes;
  static constexpr DType kCode = Kernel::AccumulatorScale::code;
  static constexpr int kSteps = OfStage::kSteps, kStepsAtOnce = OfStage::kStepsAtOnce;
  static constexpr bool kMayMeetNaN = kCode == DType::kFloat8E4M3 && !std::is_same_v<Element, __half>;
  using RowNaN = MetNaN<kMayMeetNaN>;
  using Fragments = uint32_t[kStepsAtOnce][4];
  using Unit = typename Kernel::AccumulatorScale::template Unit<Kernel>;

 public:
  // As PlainMainLoop's. A stage is multiplied in two parts, and the codes of a part are read while the part before is
  // multiplied.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t place = Kernel::rows_offset + OfStage::place_of(first_row);
    RowNaN nan[2];
    Codes codes;
    Unit unit(scale);
    pipeline.wait_until_full(at);
    OfStage::load(pipeline.data(at.stage), place, 0, codes);
    int previous = -1;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      const int stage = at.stage;
      at.advance(pipeline.stages());
#pragma unroll
      for (int first = 0; first < kSteps; first += kStepsAtOnce) {
        Fragments fragments;
        convert(codes, nan, fragments);
        if (Unit::changes && first == 0) {
          pin(fragments);
          if (unit.changes_at(block)) {
            ptx::wgmma_wait<0>();
            unit.move_on(sums);
          }
        }
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
      previous = stage;
    }
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
    unit.finish(sums);
    if constexpr (kMayMeetNaN) OfStage::put_nan(nan, sums);
  }

 private:
  static __device__ __forceinline__ void convert(const Codes& codes, RowNaN (&nan)[2], Fragments& fragments) {
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i) {
      nan[0].look_at(codes.low[i]);
      nan[1].look_at(codes.high[i]);
      convert_codes<Element, kCode>(codes.low[i], fragments[i][0], fragments[i][2]);
      convert_codes<Element, kCode>(codes.high[i], fragments[i][1], fragments[i][3]);
    }
  }

  // Before a branch: the compiler may convert behind it, between the products, where ptxas adds fences.
  static __device__ __forceinline__ void pin(Fragments& fragments) {
#pragma unroll
    for (auto& step : fragments)
#pragma unroll
      for (uint32_t& word : step) ptx::pin(word);
  }

  static __device__ __forceinline__ void issue(uint32_t stage, int first, const Fragments& fragments, int accumulate,
                                               typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsAtOnce; ++i)
      ptx::wgmma_m64k16<Element, Kernel::columns>(sums[0], fragments[i], a + TileA::offset(0, first + i) / 16,
                                                  i > 0 ? 1 : accumulate);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
