// The decoders: four warps that turn a's codes into elements in shared memory, where wgmma reads them, or put elements
// that lie there into another order; and for e5m2 b's scales into factors.
#pragma once

#include <cstdint>

#include "cuda/common/swizzle.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/elements.cuh"
#include "cuda/sm90/small_m/pipeline.cuh"

namespace tileon::sm90 {

// The scale of (row, col) in a stage's blocks of 128 rows (formats.h).
__device__ __forceinline__ constexpr int scale_offset(int row, int col) {
  return static_cast<int>(packed_scales(0).offset(row % kScaleBlockRows, col));
}

// Sixteen rows further, from a row that has them in its block: 16 words of the block's, or a column of them.
__device__ __forceinline__ constexpr int scale_offset_of_16(int times) { return scale_offset(times * 16, 0); }

// A warp takes eight rows of one group at a time, four threads a row, each of them a chunk.
template <typename Kernel>
class Decoder {
  using Chunk = typename Kernel::ChunkA;
  static constexpr int kColsPerStage = Kernel::format.scale_blocks() * kScaleBlockCols;
  static constexpr int kRowStep = 8 * kDecoderWarps / kGroupsPerStage;  // from one of a warp's eights to its next
  static constexpr int kCount = Kernel::tile_m > kRowStep ? Kernel::tile_m / kRowStep : 1;
  static constexpr bool kWeightOnly = Kernel::format.is_weight_only();
  // Where a chunk of 16 bits is half a line, half of a row's threads take its eights in another order, each two from
  // where it is: then any eight threads that read at once, of two rows, meet all banks.
  static constexpr int kApart = kWeightOnly && Chunk::kEights == 4 ? 2 : 0;
  static_assert(kRowStep == 16 && kDecoderWarps % kGroupsPerStage == 0 && kDecoderWarps * 32 == kSmallMTileN);

 public:
  __device__ __forceinline__ Decoder(const SmallMParams& params, const SmallMPipeline& shared, int m_begin, int n_begin)
      : params_(params), shared_(shared), m_begin_(m_begin), n_begin_(n_begin) {
    const unsigned warp = threadIdx.x / 32 % kDecoderWarps, lane = threadIdx.x % 32;
    const int group = warp % kGroupsPerStage, t = lane % 4;
    const int row = warp / kGroupsPerStage * 8 + lane / 4;
    const int chunk = group * kChunksPerGroup + t;
    row_ = row;
    has_rows_ = row < Kernel::tile_m;
    rows_left_ = static_cast<int>(min(params.problem.m - m_begin, int64_t{Kernel::tile_m})) - row;
    if constexpr (kWeightOnly) {
      codes_ = Kernel::stage.codes_a + row * kLineBytes + first_eight(chunk);
    } else {
      codes_ = Kernel::stage.codes_a + row * Kernel::format.line_bytes_a() + chunk * Chunk::kWords * 4;
    }
    col_ = chunk * Kernel::format.chunk() / Kernel::format.vec();
    scales_ = Kernel::stage.scales_a + scale_offset(m_begin + row, col_);
    elements_ = Kernel::stage.elements_a + row * kLineBytes;
    group_ = group;
    t_ = t;
  }

  // `passed` blocks went through the pipeline before.
  template <DecodedAs kAs>
  __device__ __forceinline__ void decode(int first_block, int blocks, int passed) const {
    PipelineState at;
    at.advance_by(passed, shared_.pipeline.stages());
    bool lost = false;  // something of this thread's rows
    bool any_extreme = false;
#pragma unroll 1
    for (int block = first_block; block < first_block + blocks; ++block) {
      wait_for_phase(shared_.landed(at.stage), at.phase);
      const uint32_t stage = shared_.pipeline.data(at.stage);
      if (!params_.scales_in_blocks) copy_scales(stage, block);
      const int cols = static_cast<int>(params_.problem.k / Kernel::format.vec()) - block * kColsPerStage;
      if constexpr (kWeightOnly) {
        if (has_rows_) reorder_stage(stage);
      } else {
        if (has_rows_) lost |= decode_stage<kAs>(stage, cols);
      }
      if constexpr (kAs == DecodedAs::kE5M2) any_extreme |= write_factors(stage, cols);
      ptx::fence_proxy_async();
      ptx::mbarrier_arrive(shared_.pipeline.full(at.stage));
      at.advance(shared_.pipeline.stages());
    }
    if constexpr (kAs == DecodedAs::kE5M2) {
      if (lost) shared_.losses.note(Losses::kCertain);
      if (any_extreme) shared_.losses.suspect<1>(Losses::kRowsOfB + factor_row(), 0);
    } else if constexpr (Kernel::a == DType::kFloat8E4M3) {
      if (lost) shared_.losses.suspect<kCount>(row_, kRowStep);
    }
  }

 private:
  // `cols` of the stage's scales lie inside k.
  template <DecodedAs kAs>
  __device__ __forceinline__ bool decode_stage(uint32_t stage, int cols) const {
    bool lost = false;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Chunk chunk;
      ptx::load_shared_words(chunk.codes, stage + codes_ + i * kRowStep * Kernel::format.line_bytes_a());
#pragma unroll
      for (int j = 0; j < Chunk::kScales; ++j)
        chunk.scales[j] = ptx::load_shared_1(stage + scales_ + scale_offset_of_16(i) + j);
      // Scales of rows that are not there may be anything, over codes of 0.
      chunk.keep_scales(i * kRowStep < rows_left_ ? cols - col_ : 0);
      const uint32_t line = stage + elements_ + i * kRowStep * kLineBytes;
      if constexpr (kAs == DecodedAs::kE5M2) {
        store_float8(line, chunk);
        lost |= is_beyond_float8(chunk.codes, chunk.scales[0]);
      } else {
        store(line, chunk);
        lost |= chunk.is_lossy();
      }
    }
    return lost;
  }

  // Elements of 16 bits change their order where they are: the four threads of a row have read a group of it before any
  // of them writes there.
  __device__ __forceinline__ void reorder_stage(uint32_t stage) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t rows = stage + i * kRowStep * kLineBytes;
      Chunk chunk;
#pragma unroll
      for (int eight = 0; eight < Chunk::kEights; ++eight) {
        uint32_t words[4];
        ptx::load_shared_words(words, (rows + codes_) ^ (eight * kChunkBytes));
#pragma unroll
        for (int j = 0; j < 4; ++j) chunk.codes[eight * 4 + j] = words[j];
      }
      __syncwarp();
      store(rows + elements_, chunk);
    }
  }

  // Where a chunk's eights lie in the stage, from their row in its first panel on: this one, of `chunk`'s first eight
  // or kApart from it, and the others an exclusive-or away.
  static __device__ __forceinline__ int first_eight(int chunk) {
    constexpr int eights_per_line = kLineBytes / kChunkBytes;
    const int eight = chunk * Chunk::kEights;
    return eight / eights_per_line * Kernel::TileA::panel_bytes +
           static_cast<int>(first_chunk() ^ ((eight % eights_per_line ^ (chunk & kApart)) * kChunkBytes));
  }

  // wgmma's k is in another order than memory's: a thread of b's has one chunk of a row, so the k of four threads lie a
  // chunk apart. Of a step's sixteen k each thread gives two to the first eight, and two to the last eight.
  __device__ __forceinline__ void store(uint32_t line, const Chunk& chunk) const {
    constexpr int steps_per_line = kLineBytes / (kMmaK * kElementBytes);
    const uint32_t elements = line + group_ * Kernel::TileA::offset(0, Kernel::steps) + first_chunk() + t_ * 4;
    const bool any_large = !kWeightOnly && __any_sync(0xffffffffu, chunk.has_large_scale());
    const int apart = (t_ & kApart) * 2 / steps_per_line;  // in lines
#pragma unroll
    for (int i = 0; i < Chunk::kEights; ++i) {
      uint4 eight = chunk.decode(i);
      if (any_large) chunk.finish(i, eight);
      const uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int step = i * 2 + j / 2, chunk_of_line = step % steps_per_line * 2 + j % 2;
        ptx::store_shared_4(
            (elements ^ (chunk_of_line * kChunkBytes)) + (step / steps_per_line ^ apart) * Kernel::TileA::panel_bytes,
            pairs[j]);
      }
    }
  }

  // A block of k is a step of wgmma's, its even elements before the odd ones.
  __device__ __forceinline__ void store_float8(uint32_t line, const Chunk& chunk) const {
    const Float8Table table(float8_exponent(chunk.scales[0]));
    uint4 even, odd;
    table.decode(chunk.codes[0], even.x, odd.x);
    table.decode(chunk.codes[1], even.y, odd.y);
    table.decode(chunk.codes[2], even.z, odd.z);
    table.decode(chunk.codes[3], even.w, odd.w);
    const uint32_t elements = (line + group_ * Kernel::TileA8::panel_bytes + first_chunk()) ^ (t_ * 2 * kChunkBytes);
    ptx::store_shared_16(elements, even);
    ptx::store_shared_16(elements ^ kChunkBytes, odd);
  }

  // Where the first chunk of this thread's row lies in its line; any other chunk of the row is an exclusive-or away.
  static __device__ __forceinline__ uint32_t first_chunk() {
    const int row = threadIdx.x % 32 / 4;  // modulo 8
    return swizzled_chunk<Swizzle::kChunkColumns, 8>(row, 0) * kChunkBytes;
  }

  // b's scales as factors of sums: a row of b for each thread. Returns whether a scale is no factor (elements.cuh); the
  // value written for it does not matter, for its block is looked at again (lost_blocks.cuh).
  static __device__ __forceinline__ bool write_factors(uint32_t stage, int cols) {
    const uint32_t scales = stage + Kernel::stage.scales_b + scale_offset(factor_row(), 0);
    const uint32_t factors = stage + Kernel::stage.factors_b + factor_row() * kColsPerStage * 4;
    bool any_extreme = false;
#pragma unroll
    for (int begin = 0; begin < kColsPerStage; begin += kScaleBlockCols) {
      const uint32_t bytes = ptx::load_shared_4(scales + scale_offset(0, begin));
      const auto factor = [&](int i) {
        const uint32_t scale = bytes >> 8 * i & 0xff;
        if (begin + i >= cols) return 0u;
        any_extreme |= !is_factor(scale);
        return scale << 23;
      };
      ptx::store_shared_16(factors + begin * 4, {factor(0), factor(1), factor(2), factor(3)});
    }
    return any_extreme;
  }

  // The row of b in the tile whose factors this thread writes.
  static __device__ __forceinline__ int factor_row() { return static_cast<int>(threadIdx.x % kSmallMTileN); }

  // Scales that do not lie in blocks: a row for each thread.
  __device__ __forceinline__ void copy_scales(uint32_t stage, int block) const {
    const int row = static_cast<int>(threadIdx.x % (kDecoderWarps * 32));
    if (!kWeightOnly && row < Kernel::tile_m)
      copy_row(params_.problem.a, params_.problem.m, m_begin_ + row, block, stage + Kernel::stage.scales_a);
    copy_row(params_.problem.b, params_.problem.n, n_begin_ + row, block, stage + Kernel::stage.scales_b);
    ptx::barrier_sync(kDecoders, kDecoderWarps * 32);
  }

  __device__ __forceinline__ void copy_row(const ScaledKernelOperand& operand, int64_t rows, int row, int block,
                                           uint32_t shared) const {
    const int64_t begin = static_cast<int64_t>(block) * kColsPerStage;
    const int64_t count =
        row < rows ? min(int64_t{kColsPerStage}, params_.problem.k / Kernel::format.vec() - begin) : 0;
    const ScaleStrides& strides = operand.scale_strides;
    const auto* scales = static_cast<const uint8_t*>(operand.scale) + strides.of_row(row);
    for (int col = 0; col < count; ++col)
      ptx::store_shared_1(shared + scale_offset(row, col), scales[strides.of_col(begin + col)]);
  }

  const SmallMParams& params_;
  const SmallMPipeline& shared_;
  int m_begin_, n_begin_;
  int row_;            // of a's in the tile, this thread's first one
  bool has_rows_;      // whether that is in the tile
  int rows_left_;      // of the problem's in the tile, from this thread's first one on
  uint32_t codes_;     // where this thread's first chunk lies in a stage
  uint32_t scales_;    // and its scales
  int col_;            // and which they are
  uint32_t elements_;  // and the line of its first row's elements
  int group_, t_;      // of four chunks, and which of them is this thread's
};

}  // namespace tileon::sm90
