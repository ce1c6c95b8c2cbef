// A consumer warpgroup's main loops: the tensor core multiplies what lies in the pipeline.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// One product of 64 rows and 32 bytes of k, by the operands' type.
template <typename Element, Major kRows, Major kColumnsMajor, typename Sum, int kSums>
__device__ __forceinline__ void issue_product(Sum (&sums)[kSums], uint64_t rows, uint64_t columns, int accumulate) {
  constexpr int n = 2 * kSums;
  if constexpr (std::is_same_v<Element, int8_t>) {
    ptx::wgmma_m64k32<n>(sums, rows, columns, accumulate);
  } else if constexpr (requires { typename Element::A; }) {
    constexpr bool a_is_e4m3 = std::is_same_v<typename Element::A, __nv_fp8_e4m3>;
    constexpr bool b_is_e4m3 = std::is_same_v<typename Element::B, __nv_fp8_e4m3>;
    ptx::wgmma_m64k32<a_is_e4m3, b_is_e4m3, n>(sums, rows, columns, accumulate);
  } else if constexpr (std::is_same_v<Element, Tf32>) {
    ptx::wgmma_m64k8<n>(sums, rows, columns, accumulate);
  } else {
    using Multiplied = std::conditional_t<std::is_same_v<Element, Bf16x3>, __nv_bfloat16, Element>;
    ptx::wgmma_m64k16<Multiplied, n, kRows == Major::kMn, kColumnsMajor == Major::kMn>(sums, rows, columns, accumulate);
  }
}

// Issues the products of one stage's rows, from `first_row` on, and of one stage's columns, most often the same one's.
// `accumulate` of 0 overwrites the sums.
template <typename Kernel>
__device__ __forceinline__ void issue_products(uint32_t rows_stage, uint32_t columns_stage, int first_row,
                                               int accumulate, typename Kernel::Sums& sums) {
  using Rows = typename Kernel::RowsTile;
  using Columns = typename Kernel::ColumnsTile;
  const uint64_t rows = Rows::descriptor(rows_stage + Kernel::rows_offset + Rows::offset(first_row, 0));
  const uint64_t columns = Columns::descriptor(columns_stage + Kernel::columns_offset);
#pragma unroll
  for (int step = 0; step < Rows::steps; ++step) {
#pragma unroll
    for (int block = 0; block < Kernel::row_blocks; ++block) {
      const uint64_t step_rows = rows + Rows::offset(block * 64, step) / 16;
      const uint64_t step_columns = columns + Columns::offset(0, step) / 16;
      const int step_accumulates = step == 0 ? accumulate : 1;
      issue_product<typename Kernel::Element, Rows::major, Columns::major>(sums[block], step_rows, step_columns,
                                                                           step_accumulates);
    }
  }
}

// The products of one stage.
template <typename Kernel>
__device__ __forceinline__ void multiply_stage(uint32_t stage, int first_row, int accumulate,
                                               typename Kernel::Sums& sums) {
  ptx::wgmma_fence();  // in every stage: hoisted out of the loop, ptxas adds its own and takes the products one by one
  issue_products<Kernel>(stage, stage, first_row, accumulate, sums);
  ptx::wgmma_commit();
}

template <typename Kernel>
__device__ __forceinline__ void add(const typename Kernel::Sums& more, typename Kernel::Sums& sums) {
#pragma unroll
  for (int i = 0; i < Kernel::row_blocks; ++i)
#pragma unroll
    for (int j = 0; j < Kernel::columns / 2; ++j) sums[i][j] += more[i][j];
}

// The MainLoop of most products: the sums stay in the tensor core.
template <typename Kernel>
struct PlainMainLoop {
  // Sums `blocks` stages, at least one, from `at` on, which moves along. One stage is multiplied while the one before
  // is given back. `during_last_product` is called while the last one is multiplied.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const typename Kernel::StagePipeline& pipeline, PipelineState& at,
                                                  int blocks, int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    pipeline.wait_until_full(at);
    multiply_stage<Kernel>(pipeline.data(at.stage), first_row, 0, sums);  // before the loop: it defines the sums
    int previous = at.stage;
    at.advance(pipeline.stages());
#pragma unroll 1
    for (int block = 1; block < blocks; ++block) {
      pipeline.wait_until_full(at);
      multiply_stage<Kernel>(pipeline.data(at.stage), first_row, 1, sums);
      ptx::wgmma_wait<1>();
      if (elected) pipeline.release(previous);
      previous = at.stage;
      at.advance(pipeline.stages());
    }
    during_last_product();
    ptx::wgmma_wait<0>();
    if (elected) pipeline.release(previous);
  }
};

// The MainLoop of fp8, whose sums the tensor core cuts: those of each stage leave it and are added in float32, while it
// works for the other consumer. So no product is cut beside those of other stages: docs/fp8_error.md.
template <typename Kernel>
struct PromotedMainLoop {
  static_assert(!Kernel::ping_pong, "in ping-pong a turn's products stay in the tensor core");

  // As PlainMainLoop's.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    const auto multiply_one = [&](typename Kernel::Sums& stage_sums) {
      pipeline.wait_until_full(at);
      multiply_stage<Kernel>(pipeline.data(at.stage), first_row, 0, stage_sums);
      ptx::wgmma_wait<0>();
      if (elected) pipeline.release(at.stage);
      at.advance(pipeline.stages());
    };
    multiply_one(sums);
#pragma unroll 1
    for (int block = 1; block < blocks; ++block) {
      typename Kernel::Sums stage_sums;
      multiply_one(stage_sums);
      add<Kernel>(stage_sums, sums);
    }
    during_last_product();
  }
};

// The MainLoop of fp8 with scales of blocks of 128 k, a stage each: the sums of a stage leave the tensor core, and are
// scaled while they are added. A stage's scales are read while the stage before is multiplied.
template <typename Kernel>
struct BlockScaledMainLoop {
  static_assert(!Kernel::ping_pong, "in ping-pong a turn's products stay in the tensor core");

  // As PlainMainLoop's. `scale` is a BlockScale (epilogue/factor_scale.cuh).
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale& scale, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    const bool elected = threadIdx.x % 128 == 0;
    auto scales = scale.scales(0);
#pragma unroll
    for (auto& block : sums)
#pragma unroll
      for (float& sum : block) sum = 0.0f;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      typename Kernel::Sums stage_sums;
      pipeline.wait_until_full(at);
      multiply_stage<Kernel>(pipeline.data(at.stage), first_row, 0, stage_sums);
      const typename Scale::Factors factors(scales);
      const auto next = scale.scales(block + 1 < blocks ? block + 1 : block);
      ptx::wgmma_wait<0>();
      if (elected) pipeline.release(at.stage);
      at.advance(pipeline.stages());
      factors.add(stage_sums, sums);
      scales = next;
    }
    during_last_product();
  }
};

}  // namespace tileon::sm90
