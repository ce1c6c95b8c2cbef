// The main loop of products whose weight alone has scales, codes of e2m1 with a scale a block: the consumers decode the
// weight into registers, which are the rows of wgmma's first operand, while the tensor core multiplies what they
// decoded before; `a`, in bfloat16, is the second operand. Every decoded number is exact in bfloat16, whatever its
// scale.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/moved_scale.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// A pair of codes, the first in the lower half of the byte, as bfloat16 times 2^-126.
__device__ __forceinline__ uint32_t move_pair(uint32_t byte) {
  return (byte * 0x00040040 & 0x01c001c0) | (byte * 0x01001000 & 0x80008000);
}

template <typename Kernel>
class DecodedWeightMainLoop {
  using TileA = typename Kernel::TileA;
  using Scale = typename Kernel::AccumulatorScale;
  using Words = typename Scale::Words;
  using RowScale = MovedScale<__nv_bfloat16, Scale::type>;
  static constexpr int kChunkK = 32;  // of sixteen bytes of codes: two steps of wgmma
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong);
  static_assert(Kernel::config.block_k == Scale::kBlockK && Kernel::TileB::line_bytes == 2 * kChunkBytes);

 public:
  // As PlainMainLoop's.
  template <typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t codes = Kernel::rows_offset + codes_of(first_row);
    Words words = scale.words(0);
    int previous = -1;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      pipeline.wait_until_full(at);
      const Words next = scale.words(block + 1 < blocks ? block + 1 : block);
      const auto behind = [&] {
        if (elected && previous >= 0) pipeline.release(previous);
      };
      multiply_stage(pipeline.data(at.stage), codes, words, block > 0, sums, behind);
      words = next;
      previous = at.stage;
      at.advance(pipeline.stages());
    }
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
  }

 private:
  // Where this thread's first row lies among the codes of a stage, of which TMA exchanges the chunks of every other
  // four rows; the second row is eight further.
  static __device__ __forceinline__ uint32_t codes_of(int first_row) {
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    return row * Kernel::TileB::line_bytes + (row / 4 % 2) * kChunkBytes;
  }

  // A row's scale of a step of k.
  static __device__ __forceinline__ RowScale scale_of(uint32_t word, int step) {
    return RowScale(word >> 8 * (step * kMmaK / vec_of(Scale::type)) & 0xff);
  }

  // Of a word of a row's codes the pair that is this thread's.
  static __device__ __forceinline__ uint32_t decode(uint32_t word, const RowScale& scale) {
    return scale.multiply_rest(scale.multiply(move_pair(ptx::prmt(word, 0, 0x4440 | threadIdx.x % 4))));
  }

  // `behind` is called when all products before this stage's are done.
  template <typename Behind>
  static __device__ __forceinline__ void multiply_stage(uint32_t stage, uint32_t codes, const Words& words,
                                                        int accumulate, typename Kernel::Sums& sums,
                                                        const Behind& behind) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
#pragma unroll
    for (int chunk = 0; chunk < Scale::kBlockK / kChunkK; ++chunk) {
      uint32_t low[4], high[4];
      ptx::load_shared_words(low, stage + (codes ^ chunk * kChunkBytes));
      ptx::load_shared_words(high, stage + (codes ^ chunk * kChunkBytes) + 8 * Kernel::TileB::line_bytes);
      uint32_t fragments[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const RowScale of_low = scale_of(words.of_row[0], 2 * chunk + i);
        const RowScale of_high = scale_of(words.of_row[1], 2 * chunk + i);
        fragments[i][0] = decode(low[2 * i], of_low);
        fragments[i][1] = decode(high[2 * i], of_high);
        fragments[i][2] = decode(low[2 * i + 1], of_low);
        fragments[i][3] = decode(high[2 * i + 1], of_high);
      }
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ptx::wgmma_m64k16<__nv_bfloat16, Kernel::columns>(
            sums[0], fragments[i], a + TileA::offset(0, 2 * chunk + i) / 16, chunk + i > 0 ? 1 : accumulate);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();  // the fragments before these are free
      if (chunk == 0) behind();
    }
  }
};

}  // namespace tileon::sm90
