// The producer: one warp that fills the pipeline's stages with codes and scales through TMA.
#pragma once

#include "cuda/ptx/sync.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/traits.cuh"

namespace tileon::sm90 {

template <typename Kernel>
class SmallMProducer {
 public:
  __device__ __forceinline__ SmallMProducer(const SmallMParams& params, const SmallMPipeline& shared, int m_begin,
                                            int n_begin)
      : params_(params), shared_(shared), m_begin_(m_begin), n_begin_(n_begin) {}

  // Loads the first of `blocks` blocks, for which nothing else has to be set up: its latency runs while the CTA
  // gathers.
  __device__ __forceinline__ void start(int first_block, int blocks) {
    if (ptx::elect_one()) {
      shared_.pipeline.init_full(0, 1, kFullArrivals);
      shared_.init_landed(0, 1);
    }
    __syncwarp();  // not for PTX: racecheck takes the thread that is elected next for another one
    ptx::grid_dependency_wait();
    if (blocks > 0) fill_next_stage(first_block);
  }

  // All lanes walk along; elect.sync, where they meet, elects the same one every time.
  __device__ __forceinline__ void load_blocks(int begin, int end) {
#pragma unroll 1
    for (int block = begin; block < end; ++block) {
      shared_.pipeline.wait_until_empty(at_);
      fill_next_stage(block);
    }
  }

 private:
  __device__ __forceinline__ void fill_next_stage(int block) {
    if (ptx::elect_one()) fill_stage(block);
    at_.advance(shared_.pipeline.stages());
  }

  __device__ __forceinline__ void fill_stage(int block) const {
    const uint32_t stage = shared_.pipeline.data(at_.stage);
    const uint32_t full = shared_.pipeline.full(at_.stage), landed = shared_.landed(at_.stage);
    const int scale_bytes = bytes_of_scales(block);
    ptx::mbarrier_arrive_expect_tx(full, kSmallMTileN * kSmallMLineBytes);
    ptx::tma_load_4d(stage, params_.map_b, full, block * kSmallMLineBytes, n_begin_, 0, 0);
    ptx::mbarrier_arrive_expect_tx(landed, Kernel::tile_m * Kernel::format.line_bytes_a() + 2 * scale_bytes);
    load_scales(params_.problem.b, stage + Kernel::stage.scales_b, landed, n_begin_, block, scale_bytes);
    ptx::tma_load_4d(stage + Kernel::stage.codes_a, params_.map_a, landed, block * Kernel::format.line_bytes_a(),
                     m_begin_, 0, 0);
    load_scales(params_.problem.a, stage + Kernel::stage.scales_a, landed, m_begin_, block, scale_bytes);
  }

  // Of a block of k of 128 rows, where TMA copies them.
  __device__ __forceinline__ int bytes_of_scales(int block) const {
    if (!params_.scales_in_blocks) return 0;
    constexpr int per_stage = Kernel::format.scale_blocks();
    const int all = static_cast<int>(scale_col_blocks(params_.problem.k / Kernel::format.vec()));
    return min(per_stage, all - block * per_stage) * kScaleBlockBytes;
  }

  // Starts copying `bytes` of the scales of those 128 rows that `row` is one of.
  static __device__ __forceinline__ void load_scales(const ScaledKernelOperand& operand, uint32_t shared,
                                                     uint32_t barrier, int row, int block, int bytes) {
    if (bytes == 0) return;
    const auto* scales = static_cast<const uint8_t*>(operand.scale) +
                         row / kScaleBlockRows * operand.scale_strides.row_block +
                         static_cast<int64_t>(block) * Kernel::format.scale_blocks() * kScaleBlockBytes;
    ptx::bulk_load(shared, scales, barrier, bytes);
  }

  const SmallMParams& params_;
  const SmallMPipeline& shared_;
  int m_begin_, n_begin_;
  PipelineState at_;
};

}  // namespace tileon::sm90
