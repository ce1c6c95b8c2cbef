// The main loop of a weight of mxfp4 that becomes e5m2: the consumers decode it into registers, which are the rows of
// wgmma's first operand; `a`, whose rows were prepared as e5m2 or e4m3 (operand_prep/prepare_beside_weight.cu), is the
// second one. A row of the weight is e5m2 times the power of two of its largest scale (layout/encoding.h). The sums of
// a stage, 128 k, leave the tensor core, and are added in float32 while it works for the other consumer, as those of
// fp8 are (mainloop/mma.cuh).
#pragma once

#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/narrow_codes.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"
#include "cuda/sm90/mainloop/mma.cuh"
#include "cuda/sm90/mainloop/scale_queue.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class Float8WeightMainLoop {
  using TileA = typename Kernel::TileA;
  using TileB = typename Kernel::TileB;
  using Scale = typename Kernel::AccumulatorScale;
  static constexpr int kSteps = TileA::steps;
  static constexpr bool kIsE4M3 = std::is_same_v<typename Kernel::Element::A, __nv_fp8_e4m3>;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong);
  static_assert(Kernel::config.block_k == kFloat8WeightK && kSteps == 4);
  static_assert(TileB::line_bytes == 4 * kChunkBytes, "a chunk is a block's codes of a row");

 public:
  // As PlainMainLoop's. A stage's codes are read while the stage before is multiplied.
  template <typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t place = Kernel::rows_offset + place_of(first_row);
    ScaleQueue<Scale> scales(scale, blocks);
#pragma unroll
    for (float& sum : sums[0]) sum = 0.0f;
    Codes codes;
    pipeline.wait_until_full(at);
    load(pipeline.data(at.stage), place, codes);
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      Fragments fragments;
      decode(codes, scales.current(), scale, fragments);
      typename Kernel::Sums stage_sums;
      issue(pipeline.data(at.stage), fragments, stage_sums);
      const int stage = at.stage;
      at.advance(pipeline.stages());
      scales.advance();
      if (block + 1 < blocks) {
        pipeline.wait_until_full(at);
        load(pipeline.data(at.stage), place, codes);
      }
      ptx::wgmma_wait<0>();
      if (elected) pipeline.release(stage);
      add<Kernel>(stage_sums, sums);
    }
    during_last_product();
  }

 private:
  // A block's codes, 32, of each of this thread's rows: row lane / 4 of the warp's, and the eighth row behind it. The
  // four threads of a row have a block of the stage each, so that each needs one scale of the row.
  struct Codes {
    uint32_t low[4], high[4];
  };
  // Of each step the low row's even codes, the high row's, the low row's odd ones and the high row's.
  using Fragments = uint32_t[kSteps][4];

  // Where this thread's codes of its first row lie in a stage, of which TMA exchanges the chunks of every other two
  // rows.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    constexpr int rows_of_line = kLineBytes / TileB::line_bytes;
    return row * TileB::line_bytes + (lane % 4 ^ row / rows_of_line % 4) * kChunkBytes;
  }

  static __device__ __forceinline__ void load(uint32_t stage, uint32_t place, Codes& codes) {
    ptx::load_shared_words(codes.low, stage + place);
    ptx::load_shared_words(codes.high, stage + place + 8 * TileB::line_bytes);
  }

  static __device__ __forceinline__ void decode(const Codes& codes, const ScaleWords& words, const Scale& scale,
                                                Fragments& fragments) {
    const auto block_of = [&](int row) {
      return NarrowBlock<Encoding::kE5M2>(static_cast<int>(words.of_row[row] >> 8 * (threadIdx.x % 4) & 0xff),
                                          scale.largest(row));
    };
    const auto low = block_of(0), high = block_of(1);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint2 of_low = low.decode(codes.low[step]), of_high = high.decode(codes.high[step]);
      fragments[step][0] = of_low.x;
      fragments[step][1] = of_high.x;
      fragments[step][2] = of_low.y;
      fragments[step][3] = of_high.y;
    }
  }

  static __device__ __forceinline__ void issue(uint32_t stage, const Fragments& fragments,
                                               typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_e5m2<kIsE4M3, Kernel::columns>(sums[0], fragments[step], a + TileA::offset(0, step) / 16,
                                                       step > 0);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
