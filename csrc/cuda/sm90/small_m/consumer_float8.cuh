// The consumers of mxfp4 by way of e5m2 (float8.cuh): what consumer.cuh is for elements of 16 bits.
#pragma once

#include <cstdint>

#include "cuda/common/swizzle.h"
#include "cuda/ptx/matrix_copy.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/small_m/float8.cuh"
#include "cuda/sm90/small_m/params.h"
#include "cuda/sm90/small_m/traits.cuh"

namespace tileon::sm90 {

// One warpgroup. It takes every Kernel::parts-th stage. A product of wgmma is one block of k: of a thread's two rows,
// eight apart, a word of codes each.
template <typename Kernel>
class Float8Consumer {
  using TileA = typename Kernel::TileA8;
  static constexpr int kBlocks = kGroupsPerStage * kChunksPerGroup;  // in a stage

 public:
  __device__ __forceinline__ Float8Consumer(const SmallMPipeline& shared, int warp)
      : pipeline_(shared.pipeline), part_(warp / 4 % Kernel::parts) {
    const int lane = threadIdx.x % 32;
    const int row = warp / 4 / Kernel::parts * 64 + warp % 4 * 16;
    // ldmatrix: the chunk of rows 0 to 7, of rows 8 to 15, and the next chunk of both
    codes_ = (row + lane % 16) * kSmallMLineBytes +
             swizzled_chunk<Swizzle::kChunkColumns, 8>(lane % 8, lane / 16) * kChunkBytes;
    factors_ = Kernel::stage.factors_b + (row + lane / 4) * kBlocks * 4;
  }

  // Sums this warpgroup's part of the CTA's blocks of k, for its 64 rows of b.
  __device__ __forceinline__ void multiply(int blocks, typename Kernel::Sums& sums) const {
    PipelineState at;
    at.advance_by(part_, pipeline_.stages());
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
#pragma unroll 1
    for (int block = part_; block < blocks; block += Kernel::parts) {
      pipeline_.wait_until_full(at);
      multiply_stage(pipeline_.data(at.stage), sums);
      if (threadIdx.x % 128 == 0) pipeline_.release(at.stage);
      at.advance_by(Kernel::parts, pipeline_.stages());
    }
  }

 private:
  // A block is decoded while the one before is multiplied. Two sets of products at a time would keep the tensor core
  // busier, but not ptxas from taking them one by one.
  __device__ __forceinline__ void multiply_stage(uint32_t stage, typename Kernel::Sums& sums) const {
    const uint64_t a = TileA::descriptor(stage + Kernel::stage.elements_a);
    float products[Kernel::tile_m / 2];
    uint32_t codes[4];
    float4 low, high;  // b's scales, of two rows in four blocks
#pragma unroll
    for (int block = 0; block <= kBlocks; ++block) {
      uint32_t fragments[4];
      if (block < kBlocks) {
        if (block % 2 == 0) ptx::ldmatrix_x4(codes, stage + (codes_ ^ (block * kChunkBytes)));
        move_e2m1_to_e5m2(codes[block % 2 * 2], fragments[0], fragments[2]);
        move_e2m1_to_e5m2(codes[block % 2 * 2 + 1], fragments[1], fragments[3]);
      }
      if (block > 0) {
        const int done = block - 1;
        if (done % 4 == 0) {
          low = ptx::load_shared_float4(stage + factors_ + done * 4);
          high = ptx::load_shared_float4(stage + factors_ + 8 * kBlocks * 4 + done * 4);
        }
        ptx::wgmma_wait<0>();
        add(products, component(low, done % 4), component(high, done % 4), sums);
      }
      if (block < kBlocks) {
        ptx::wgmma_fence();
        ptx::wgmma_m64k32_e5m2<Kernel::tile_m>(products, fragments, a + TileA::offset(0, block) / 16);
        ptx::wgmma_commit();
      }
    }
  }

  static __device__ __forceinline__ void add(const float (&products)[Kernel::tile_m / 2], float low, float high,
                                             typename Kernel::Sums& sums) {
#pragma unroll
    for (int i = 0; i < Kernel::tile_m / 2; ++i) sums[i] = fmaf(products[i], i % 4 < 2 ? low : high, sums[i]);
  }

  static __device__ __forceinline__ float component(const float4& values, int i) {
    return i == 0 ? values.x : i == 1 ? values.y : i == 2 ? values.z : values.w;
  }

  const Pipeline& pipeline_;
  int part_;          // of k
  uint32_t codes_;    // where this lane's row of the first matrices lies in a stage
  uint32_t factors_;  // and this thread's first row of b's scales
};

}  // namespace tileon::sm90
