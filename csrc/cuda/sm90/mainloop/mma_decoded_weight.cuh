// The main loop of products whose weight has codes of e2m1 with a scale a block: the consumers decode the weight into
// registers, which are the rows of wgmma's first operand, while the tensor core multiplies what they decoded before;
// `a`, in bfloat16, is the second operand. Every decoded number is exact in bfloat16, whatever its scale.
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
#include "cuda/sm90/mainloop/scale_queue.cuh"

namespace tileon::sm90 {

// A pair of codes, the first in the lower half of the byte, as bfloat16 times 2^-126.
__device__ __forceinline__ uint32_t move_pair(uint32_t byte) {
  return (byte * 0x00040040 & 0x01c001c0) | (byte * 0x01001000 & 0x80008000);
}

template <typename Kernel>
class DecodedWeightMainLoop {
  using TileA = typename Kernel::TileA;
  using Scale = typename Kernel::AccumulatorScale;
  using RowScale = MovedScale<__nv_bfloat16, Scale::type>;
  static constexpr int kChunkK = 32;  // of sixteen bytes of codes: two steps of wgmma
  static constexpr int kChunks = Scale::kBlockK / kChunkK;
  static_assert(Kernel::swapped && Kernel::row_blocks == 1 && !Kernel::ping_pong);
  static_assert(Kernel::config.block_k == Scale::kBlockK && Kernel::TileB::line_bytes == 2 * kChunkBytes);

 public:
  // As PlainMainLoop's. The codes of a chunk are read while the chunk before is multiplied.
  template <typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const uint32_t place = Kernel::rows_offset + place_of(first_row);
    ScaleQueue<Scale> scales(scale, blocks);
    Codes codes;
    pipeline.wait_until_full(at);
    load(pipeline.data(at.stage), place, 0, codes);
    int previous = -1;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      const int stage = at.stage;
      at.advance(pipeline.stages());
      const ScaleWords words = scales.current();
      const bool are_ordinary = RowScale::are_ordinary(words.of_row[0]) && RowScale::are_ordinary(words.of_row[1]);
      const bool is_quick = __all_sync(0xffffffffu, are_ordinary);
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        Fragments fragments;
        decode<true>(codes, words, chunk, fragments);
        if (!is_quick) decode<false>(codes, words, chunk, fragments);
        issue(pipeline.data(stage), chunk, fragments, chunk > 0 || block > 0, sums);
        if (chunk + 1 < kChunks) {
          load(pipeline.data(stage), place, chunk + 1, codes);
        } else if (block + 1 < blocks) {
          pipeline.wait_until_full(at);
          load(pipeline.data(at.stage), place, 0, codes);
        }
        ptx::wgmma_wait<1>();  // the chunk before this one is done: its fragments are free, and so is a stage before
        if (chunk == 0 && elected && previous >= 0) pipeline.release(previous);
      }
      scales.advance();
      previous = stage;
    }
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
  }

 private:
  // The codes of a chunk, 32 of each of this thread's rows: row lane / 4 of the warp's, and the eighth row behind it.
  struct Codes {
    uint32_t low[4], high[4];
  };

  // Where this thread's first row lies among the codes of a stage, of which TMA exchanges the chunks of every other
  // four rows.
  static __device__ __forceinline__ uint32_t place_of(int first_row) {
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    return row * Kernel::TileB::line_bytes + (row / 4 % 2) * kChunkBytes;
  }

  static __device__ __forceinline__ void load(uint32_t stage, uint32_t place, int chunk, Codes& codes) {
    const uint32_t from = stage + (place ^ chunk * kChunkBytes);
    ptx::load_shared_words(codes.low, from);
    ptx::load_shared_words(codes.high, from + 8 * Kernel::TileB::line_bytes);
  }

  // Of the two steps of a chunk: of a step the low row's first pair, the high row's, and both rows' second pairs.
  using Fragments = uint32_t[2][4];

  // `kOrdinary`: whether all scales of the warp are ordinary.
  template <bool kOrdinary>
  static __device__ __forceinline__ void decode(const Codes& codes, const ScaleWords& words, int chunk,
                                                Fragments& fragments) {
#pragma unroll
    for (int step = 0; step < 2; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = (i % 2 == 0 ? codes.low : codes.high)[2 * step + i / 2];
        const uint32_t pair = move_pair(ptx::prmt(word, 0, 0x4440 | threadIdx.x % 4));
        const uint32_t byte = words.of_row[i % 2] >> 8 * ((2 * chunk + step) * kMmaK / vec_of(Scale::type)) & 0xff;
        if constexpr (kOrdinary) {
          fragments[step][i] = multiply_pair(pair, RowScale::ordinary(byte));
        } else {
          const RowScale scale(byte);
          fragments[step][i] = scale.multiply_rest(scale.multiply(pair));
        }
      }
  }

  static __device__ __forceinline__ void issue(uint32_t stage, int chunk, const Fragments& fragments, int accumulate,
                                               typename Kernel::Sums& sums) {
    const uint64_t a = TileA::descriptor(stage + Kernel::columns_offset);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step)
      ptx::wgmma_m64k16<__nv_bfloat16, Kernel::columns>(
          sums[0], fragments[step], a + TileA::offset(0, 2 * chunk + step) / 16, step > 0 ? 1 : accumulate);
    ptx::wgmma_commit();
  }
};

}  // namespace tileon::sm90
