// The main loop of a weight of mxfp4 that becomes e5m2: the consumers decode it into registers, which are the rows of
// wgmma's first operand; `a`, rows of e4m3 (operand_prep/fold_beside_weight.cu), is the second one. The sums of a
// stage, 128 k, leave the tensor core, as those of fp8 do (mainloop/mma.cuh), and are multiplied by a power of two for
// each row while they are added to the others: so a row of the weight only has to be e5m2 times a power within a stage,
// and no kernel has to look at its scales before. A stage is decoded while the stage before is multiplied.
#pragma once

#include <cstdint>

#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/float8_rows.cuh"
#include "cuda/sm90/layout/narrow_codes.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"
#include "cuda/sm90/mainloop/scale_queue.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class Float8WeightMainLoop {
  using TileA = typename Kernel::TileA;
  using TileB = typename Kernel::TileB;
  using Scale = typename Kernel::AccumulatorScale;
  static constexpr int kSteps = TileA::steps;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong);
  static_assert(Kernel::config.block_k == kFloat8WeightK && kSteps == 4 && Scale::kColumns == 4);
  static_assert(TileB::line_bytes == 4 * kChunkBytes, "a chunk is a block's codes of a row");

 public:
  // As PlainMainLoop's.
  template <typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t place = Kernel::rows_offset + place_of(first_row);
    const int last = scale.first_block() + blocks - 1;
    int word = scale.first_block();  // of the scales: a stage's are one
    bool lost = false;
#pragma unroll
    for (float& sum : sums[0]) sum = 0.0f;
    ScaleWords words = scale.words(word);
    const auto decode_next = [&](Decoded& decoded) {
      pipeline.wait_until_full(at);
      Codes codes;
      load(pipeline.data(at.stage), place, codes);
      decode(codes, words, decoded, lost);
      scale.prefetch(word + Scale::kWordsAhead);
      word = min(word + 1, last);
      words = scale.words(word);
    };
    // `next` is decoded while `decoded` is multiplied.
    const auto multiply_one = [&](const Decoded& decoded, Decoded& next, bool has_next) {
      typename Kernel::Sums stage_sums;
      const int stage = at.stage;
      issue(pipeline.data(stage), decoded, stage_sums);
      at.advance(pipeline.stages());
      if (has_next) decode_next(next);
      ptx::wgmma_wait<0>();
      if (elected) pipeline.release(stage);
#pragma unroll
      for (int i = 0; i < Kernel::columns / 2; ++i)
        sums[0][i] = fmaf(stage_sums[0][i], decoded.factors[i / 2 % 2], sums[0][i]);
    };
    Decoded even, odd;
    decode_next(even);
#pragma unroll 1
    for (int block = 0; block < blocks; block += 2) {
      multiply_one(even, odd, block + 1 < blocks);
      if (block + 1 == blocks) break;
      multiply_one(odd, even, block + 2 < blocks);
    }
    if (__any_sync(0xffffffffu, lost)) scale.report_loss();
    during_last_product();
  }

 private:
  // A block's codes, 32, of each of this thread's rows: row lane / 4 of the warp's, and the eighth row behind it. The
  // four threads of a row have a block of the stage each, so that each needs one scale of the row.
  struct Codes {
    uint32_t of_row[2][4];
  };
  struct Decoded {
    uint32_t fragments[kSteps][4];  // of each step both rows' even codes, then both rows' odd ones
    float factors[2];               // of the rows
  };

  // Where this thread's codes of its first row lie in a stage, of which TMA exchanges the chunks of every other two
  // rows.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    constexpr int rows_of_line = kLineBytes / TileB::line_bytes;
    return row * TileB::line_bytes + (lane % 4 ^ row / rows_of_line % 4) * kChunkBytes;
  }

  static __device__ __forceinline__ void load(uint32_t stage, uint32_t place, Codes& codes) {
    ptx::load_shared_words(codes.of_row[0], stage + place);
    ptx::load_shared_words(codes.of_row[1], stage + place + 8 * TileB::line_bytes);
  }

  static __device__ __forceinline__ void decode(const Codes& codes, const ScaleWords& words, Decoded& decoded,
                                                bool& lost) {
    RowUnit units[2] = {RowUnit(words.of_row[0]), RowUnit(words.of_row[1])};
    if (__any_sync(0xffffffffu, !(units[0].is_ordinary() && units[1].is_ordinary()))) {
#pragma unroll
      for (int row = 0; row < 2; ++row) lost |= units[row].look_at(codes.of_row[row]);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const Float8Table table(units[row].exponent);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        table.decode(codes.of_row[row][step], decoded.fragments[step][row], decoded.fragments[step][2 + row]);
      decoded.factors[row] = units[row].factor();
    }
  }

  static __device__ __forceinline__ void issue(uint32_t stage, const Decoded& decoded, typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_e5m2<true, Kernel::columns>(sums[0], decoded.fragments[step], a + TileA::offset(0, step) / 16,
                                                    step > 0);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
