// The main loop of products whose weight has codes: the consumers decode the weight into registers, which are the rows
// of wgmma's first operand, while the tensor core multiplies what they decoded before; `a`, of 16 bits or folded to
// e4m3, is the second operand. What the codes are, and how they are scaled, is a decoder's affair (fp4_decoder.cuh,
// mxfp8_decoder.cuh, codes_decoder.cuh, fold_decoder.cuh).
#pragma once

#include <cstdint>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// Steps of wgmma that are decoded and multiplied at once: four; two of e2m1 and of folds, and where the sums leave no
// registers for four.
template <typename Kernel>
struct DecodedPart {
  static constexpr bool has_two = Kernel::config.code_bits == 4 || is_fold(Kernel::config) || Kernel::columns >= 192;
  static constexpr int steps = has_two ? 2 : 4;

  // Of a step the thread's low row's first pair, its high row's, and both rows' second pairs, of folds four codes each;
  // the low row is row lane / 4 of the warp's, the high one the eighth behind it.
  using Fragments = uint32_t[steps][4];
};

// Has the compiler keep a part's fragments until here, and have them worked out.
template <int kSteps>
__device__ __forceinline__ void pin_part(uint32_t (&fragments)[kSteps][4]) {
#pragma unroll
  for (auto& step : fragments)
#pragma unroll
    for (uint32_t& word : step) ptx::pin(word);
}

// A decoder:
// load(stage, part)         reads a part's codes; with the first part the stage's scales, too
// decode(part, fragments)   what was read last
// before_products(block, part, fragments, sums)   sums that have a unit move on; `block` is counted from 0. Returns
//                           whether this part's products are added to the sums: false where they begin anew.
// finish(sums)              after the last product
// has_other_sums            true: it keeps sums of its own, beside which `during_last_product` has no registers
// loads_behind_products     true: the next part is loaded after this part's products are issued; false: before them.
//                           After is faster where a part takes few loads.
template <typename Kernel, typename Decoder>
class DecodedWeightMainLoop {
  using TileA = typename Kernel::TileA;
  using Fragments = typename DecodedPart<Kernel>::Fragments;
  static constexpr int kSteps = DecodedPart<Kernel>::steps, kParts = TileA::steps / kSteps;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong);
  static_assert(kParts * kSteps == TileA::steps && (kParts == 1 || kParts == 2));
  static_assert(kParts > 1 || pipeline_stages(Kernel::config, Major::kK, Major::kK) >= 3,
                "the next stage is waited for before the one before is released");

 public:
  // As PlainMainLoop's.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    DecodedWeightMainLoop loop(pipeline, at, blocks, Decoder(scale, first_row));
#pragma unroll 1
    while (loop.template multiply_part<0>(sums) && loop.template multiply_part<1>(sums)) {
    }
    if (!Decoder::has_other_sums) during_last_product();
    ptx::wgmma_wait<0>();
    loop.release_last();
    loop.decoder_.finish(sums);
    if (Decoder::has_other_sums) during_last_product();
  }

 private:
  __device__ __forceinline__ DecodedWeightMainLoop(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                   const Decoder& decoder)
      : pipeline_(pipeline), at_(at), blocks_(blocks), decoder_(decoder) {
    pipeline_.wait_until_full(at_);
    decoder_.load(pipeline_.data(at_.stage), 0);
  }

  // Multiplies the part that was loaded, and loads the next one; false if there is none. Parts take turns in two sets
  // of registers.
  template <int kTurn>
  __device__ __forceinline__ bool multiply_part(typename Kernel::Sums& sums) {
    constexpr int part = kTurn % kParts;
    if (part == 0) begin_stage();
    Fragments& fragments = fragments_[kTurn];
    decoder_.decode(part, fragments);
    if (!Decoder::loads_behind_products) load_next(part);
    const bool goes_on = decoder_.before_products(block_, part, fragments, sums);
    issue(pipeline_.data(stage_), part, fragments, goes_on && (part > 0 || block_ > 0), sums);
    if (Decoder::loads_behind_products) load_next(part);
    ptx::wgmma_wait<1>();
    release_part_before(part, fragments_[1 - kTurn]);
    if (part + 1 < kParts) return true;
    ++block_;
    return has_more_;
  }

  __device__ __forceinline__ void begin_stage() {
    previous_ = stage_;
    stage_ = at_.stage;
    at_.advance(pipeline_.stages());
    has_more_ = block_ + 1 < blocks_;
  }

  __device__ __forceinline__ void load_next(int part) {
    if (part + 1 < kParts) return decoder_.load(pipeline_.data(stage_), part + 1);
    if (!has_more_) return;
    pipeline_.wait_until_full(at_);
    decoder_.load(pipeline_.data(at_.stage), 0);
  }

  // The products of the part before are done: its registers are free, and so is the stage before.
  __device__ __forceinline__ void release_part_before(int part, Fragments& fragments) const {
    pin_part(fragments);  // ptxas would decode into them behind a branch
    if (part == 0 && previous_ >= 0 && threadIdx.x % 128 == 0) pipeline_.release(previous_);
  }

  __device__ __forceinline__ void release_last() const {
    if (threadIdx.x % 128 == 0) pipeline_.release(stage_);
  }

  static __device__ __forceinline__ void issue(uint32_t stage, int part, const Fragments& fragments, int accumulate,
                                               typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      issue_step(fragments[step], a + TileA::offset(0, part * kSteps + step) / 16, step > 0 ? 1 : accumulate, sums[0]);
    ptx::wgmma_commit();
  }

  static __device__ __forceinline__ void issue_step(const uint32_t (&rows)[4], uint64_t columns, int accumulate,
                                                    float (&sums)[Kernel::columns / 2]) {
    if constexpr (is_fold(Kernel::config)) {
      ptx::wgmma_m64k32_e4m3<Kernel::columns>(sums, rows, columns, accumulate);
    } else {
      ptx::wgmma_m64k16<typename Kernel::Element, Kernel::columns>(sums, rows, columns, accumulate);
    }
  }

  const Pipeline& pipeline_;
  PipelineState& at_;  // behind stage_
  int blocks_, block_ = 0;
  int stage_ = -1, previous_ = -1;
  bool has_more_ = false;  // stages
  Decoder decoder_;
  Fragments fragments_[2] = {};
};

}  // namespace tileon::sm90
