// The consumers of elements of 16 bits: warpgroups that decode codes of b in registers (elements.cuh) and multiply them
// by the a that lies in shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/decoder.cuh"
#include "cuda/sm90/small_m/elements.cuh"
#include "cuda/sm90/small_m/pipeline.cuh"

namespace tileon::sm90 {

// One warpgroup. It takes every Kernel::parts-th stage.
template <typename Kernel>
class Consumer {
  using Chunk = typename Kernel::ChunkB;
  using TileA = typename Kernel::TileA;
  static constexpr int kColsPerStage = Kernel::format.scale_blocks() * kScaleBlockCols;
  static constexpr bool kHasScales = !Kernel::format.has_float32_scales();  // in a stage

 public:
  // What bfloat16 lost: something of this thread's rows or, where that is NaN alone, of which of them, a bit each.
  using Lost = std::conditional_t<Kernel::loses_nan_alone, uint32_t, bool>;

  __device__ __forceinline__ Consumer(const SmallMParams& params, const SmallMPipeline& shared, int n_begin, int warp)
      : params_(params), pipeline_(shared.pipeline), part_(warp / 4 % Kernel::parts) {
    const int row = first_row(warp);
    const int t = threadIdx.x % 4;
    codes_ = row * kSmallMLineBytes + swizzled_chunk<Swizzle::kChunkColumns, 8>(row, t) * kChunkBytes;
    col_ = t * Kernel::format.chunk() / Kernel::format.vec();
    scales_ = Kernel::stage.scales_b + scale_offset(row, col_);
    rows_left_ = static_cast<int>(min(params.problem.n - n_begin, int64_t{kSmallMTileN})) - row;
    row_ = n_begin + row;
  }

  // This thread's first row of b in the tile; its second row is eight further.
  static __device__ __forceinline__ int first_row(int warp) {
    return warp / 4 / Kernel::parts * 64 + warp % 4 * 16 + threadIdx.x % 32 / 4;
  }

  // Sums this warpgroup's part of the CTA's blocks of k, for its 64 rows of b. `passed` blocks went through the
  // pipeline before.
  __device__ __forceinline__ Lost multiply(int first_block, int blocks, int passed, typename Kernel::Sums& sums) const {
    PipelineState at;
    at.advance_by(passed + part_, pipeline_.stages());
    int previous = -1;
    Lost lost = false;
#pragma unroll 1
    for (int block = part_; block < blocks; block += Kernel::parts) {
      const int cols =
          static_cast<int>(params_.problem.k / Kernel::format.vec()) - (first_block + block) * kColsPerStage;
      pipeline_.wait_until_full(at);
#pragma unroll
      for (int group = 0; group < kGroupsPerStage; ++group) {
        const int accumulate = group > 0 || block > part_;
        lost |= multiply_group(pipeline_.data(at.stage), group, cols, accumulate, sums, [&] {
          if (group == 0 && threadIdx.x % 128 == 0 && previous >= 0) pipeline_.release(previous);
        });
      }
      previous = at.stage;
      at.advance_by(Kernel::parts, pipeline_.stages());
    }
    ptx::wgmma_wait<0>();
    if (threadIdx.x % 128 == 0 && previous >= 0) pipeline_.release(previous);
    if (blocks <= part_) {
#pragma unroll
      for (float& sum : sums) sum = 0.0f;
    }
    return lost;
  }

  // As multiply, where scales change along k, with every stage: they multiply the stage's sums.
  __device__ __forceinline__ Lost multiply_blocks(int first_block, int blocks, typename Kernel::Sums& sums) const {
    static_assert(Kernel::format.vec() == Kernel::format.stage_k());
    PipelineState at;
    at.advance_by(part_, pipeline_.stages());
    Lost lost = false;
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
#pragma unroll 1
    for (int block = part_; block < blocks; block += Kernel::parts) {
      const float low = scale_of(0, first_block + block), high = scale_of(8, first_block + block);
      pipeline_.wait_until_full(at);
      typename Kernel::Sums products;
#pragma unroll
      for (int group = 0; group < kGroupsPerStage; ++group)
        lost |= multiply_group(pipeline_.data(at.stage), group, 0, group > 0, products, [] {});
      ptx::wgmma_wait<0>();
      if (threadIdx.x % 128 == 0) pipeline_.release(at.stage);
#pragma unroll
      for (int i = 0; i < Kernel::tile_m / 2; ++i) sums[i] = fmaf(products[i], i % 4 < 2 ? low : high, sums[i]);
      at.advance_by(Kernel::parts, pipeline_.stages());
    }
    return lost;
  }

 private:
  // The float32 scale of a stage, of this thread's first row or of one `down` from it; of a row that is not there, any.
  __device__ __forceinline__ float scale_of(int down, int block) const {
    const ScaledKernelOperand& b = params_.problem.b;
    const int64_t row = min(int64_t{row_} + down, params_.problem.n - 1);
    return static_cast<const float*>(b.scale)[b.scale_strides.offset(row, block)];
  }

  // This thread's chunk in the group: of its first row, or (`half`) of the row eight on. Of the stage's scales, only
  // `cols` lie inside k.
  __device__ __forceinline__ Chunk load(uint32_t stage, int group, int half, int cols) const {
    Chunk chunk;
    constexpr int cols_per_group = kColsPerStage / kGroupsPerStage;
    ptx::load_shared_words(chunk.codes,
                           stage + (codes_ ^ (group * kChunksPerGroup * kChunkBytes)) + half * 8 * kSmallMLineBytes);
    if constexpr (kHasScales) {
#pragma unroll
      for (int i = 0; i < Chunk::kScales; ++i)
        chunk.scales[i] = ptx::load_shared_1(stage + scales_ + half * scale_offset(8, 0) +
                                             scale_offset(0, group * cols_per_group) + i);
      // Rows that are not there have codes of 0 and any scales: e2m1 loses nothing of such codes.
      const bool exists = Kernel::b == DType::kFloat4E2M1 || half * 8 < rows_left_;
      chunk.keep_scales(exists ? cols - col_ - group * cols_per_group : 0);
    }
    return chunk;
  }

  // `behind` is called when all products before this group's are done.
  template <typename Behind>
  __device__ __forceinline__ Lost multiply_group(uint32_t stage, int group, int cols, int accumulate,
                                                 typename Kernel::Sums& sums, const Behind& behind) const {
    const Chunk low = load(stage, group, 0, cols), high = load(stage, group, 1, cols);
    const bool any_large = __any_sync(0xffffffffu, low.has_large_scale() || high.has_large_scale());
    const uint64_t a = TileA::descriptor(stage + Kernel::stage.elements_a + group * TileA::offset(0, Kernel::steps));
#pragma unroll
    for (int eight = 0; eight < Chunk::kEights; ++eight) {
      uint4 x = low.decode(eight), y = high.decode(eight);
      if (any_large) {
        low.finish(eight, x);
        high.finish(eight, y);
      }
      const uint32_t fragments[2][4] = {{x.x, y.x, x.y, y.y}, {x.z, y.z, x.w, y.w}};
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ptx::wgmma_m64k16<typename Kernel::Element, Kernel::tile_m>(
            sums, fragments[i], a + TileA::offset(0, eight * 2 + i) / 16, eight + i > 0 ? 1 : accumulate);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();  // the fragments before these are free
      if (eight == 0) behind();
    }
    if constexpr (Kernel::loses_nan_alone) return (low.is_lossy() ? 1u : 0u) | (high.is_lossy() ? 2u : 0u);
    return low.is_lossy() | high.is_lossy();
  }

  const SmallMParams& params_;
  const Pipeline& pipeline_;
  int part_;       // of k
  int codes_;      // where this thread's first chunk lies in a stage
  int scales_;     // and its scales
  int col_;        // and which they are
  int rows_left_;  // of b's in the tile, from this thread's first one on
  int row_;        // and which of all it is
};

// Of rows `row` of b, and eight further, those whose bits are set in `lost`.
__device__ __forceinline__ void note_nans(const Losses& losses, int row, uint32_t lost) {
  losses.note(Losses::kMaybe);
  if ((lost & 1) != 0) losses.note_nan(Losses::kRowsOfB + row);
  if ((lost & 2) != 0) losses.note_nan(Losses::kRowsOfB + row + 8);
}

}  // namespace tileon::sm90
