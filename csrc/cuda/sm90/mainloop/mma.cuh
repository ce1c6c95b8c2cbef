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

// ---- the MainLoops of fp8, whose sums the tensor core cuts: those of each stage leave it, and are added in float32.
// So no product is cut beside those of other stages (docs/fp8_error.md) ----

// A watchdog's kernels do not: its branches make ptxas wait for each product.
template <typename Kernel>
inline constexpr bool promotes_behind = Kernel::config.promotes_behind && !kWatchdog;

// By a warp whose products of the stage are done.
template <typename Kernel>
__device__ __forceinline__ void release(const Pipeline& pipeline, int stage) {
  constexpr bool by_warps = Kernel::config.has_stage_scales;
  if (by_warps) __syncwarp();  // all lanes have read the scales
  if (threadIdx.x % (by_warps ? 32 : 128) == 0) pipeline.release(stage);
}

// Multiplies `blocks` stages from `at` on, which moves along, each to sums of its own. Promotion adds these to `sums`
// while the other consumers multiply or, in kernels that promote behind, while this one multiplies the next stage; what
// it multiplies them by are Promotion's Factors, which come with a stage.
template <typename Kernel, typename Promotion>
__device__ __forceinline__ void promote_stages(const Pipeline& pipeline, PipelineState& at, int blocks, int first_row,
                                               typename Kernel::Sums& sums) {
  using Sums = typename Kernel::Sums;
  using Factors = typename Promotion::Factors;
  const auto issue = [&](Sums& stage_sums, Factors& factors) {
    pipeline.wait_until_full(at);
    const uint32_t stage = pipeline.data(at.stage);
    factors.read(stage);  // ahead of the products, which leave shared memory little time for others
    multiply_stage<Kernel>(stage, first_row, 0, stage_sums);
    factors.read_word(stage);
  };
  if constexpr (!promotes_behind<Kernel>) {
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      Sums stage_sums;
      Factors factors;
      issue(stage_sums, factors);
      ptx::wgmma_wait<0>();
      release<Kernel>(pipeline, at.stage);
      at.advance(pipeline.stages());
      Promotion::add(stage_sums, factors, sums);
    }
  } else {
    Sums even, odd;
    Factors of_even, of_odd;
    int oldest = at.stage;  // of those under way
    const auto issue_next = [&](Sums& stage_sums, Factors& factors) {
      issue(stage_sums, factors);
      at.advance(pipeline.stages());
    };
    // Adds the oldest stage's sums, while `kOthers` more stages are under way.
    const auto promote = [&]<int kOthers>(std::integral_constant<int, kOthers>, Sums& stage_sums, Factors& factors) {
      ptx::wgmma_wait<kOthers>();
      release<Kernel>(pipeline, oldest);
      if (++oldest == pipeline.stages()) oldest = 0;
      Promotion::add(stage_sums, factors, sums);
    };
    constexpr std::integral_constant<int, 0> none;
    constexpr std::integral_constant<int, 1> one;
    issue_next(even, of_even);
    int left = blocks;
#pragma unroll 1
    for (; left > 2; left -= 2) {
      issue_next(odd, of_odd);
      promote(one, even, of_even);
      issue_next(even, of_even);
      promote(one, odd, of_odd);
    }
    if (left == 2) {
      issue_next(odd, of_odd);
      promote(one, even, of_even);
      promote(none, odd, of_odd);
    } else {
      promote(none, even, of_even);
    }
  }
}

template <typename Kernel>
__device__ __forceinline__ void add(const typename Kernel::Sums& more, typename Kernel::Sums& sums) {
#pragma unroll
  for (int i = 0; i < Kernel::row_blocks; ++i)
#pragma unroll
    for (int j = 0; j < Kernel::columns / 2; ++j) sums[i][j] += more[i][j];
}

template <typename Kernel>
__device__ __forceinline__ void clear(typename Kernel::Sums& sums) {
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& sum : block) sum = 0.0f;
}

// Without scales, or with those of rows, which FactorScale applies.
template <typename Kernel>
struct PromotedMainLoop {
  static_assert(!Kernel::ping_pong, "in ping-pong a turn's products stay in the tensor core");

  struct Promotion {
    struct Factors {
      __device__ __forceinline__ void read(uint32_t) const {}
      __device__ __forceinline__ void read_word(uint32_t) const {}
    };
    static __device__ __forceinline__ void add(const typename Kernel::Sums& stage_sums, const Factors&,
                                               typename Kernel::Sums& sums) {
      sm90::add<Kernel>(stage_sums, sums);
    }
  };

  // As PlainMainLoop's.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    if constexpr (promotes_behind<Kernel>) {
      clear<Kernel>(sums);
      promote_stages<Kernel, Promotion>(pipeline, at, blocks, first_row, sums);
    } else {
      pipeline.wait_until_full(at);
      multiply_stage<Kernel>(pipeline.data(at.stage), first_row, 0, sums);
      ptx::wgmma_wait<0>();
      if (threadIdx.x % 128 == 0) pipeline.release(at.stage);
      at.advance(pipeline.stages());
      promote_stages<Kernel, Promotion>(pipeline, at, blocks - 1, first_row, sums);
    }
    during_last_product();
  }
};

template <typename Kernel>
struct BlockPromotion;  // epilogue/block_scale.cuh

// With scales of blocks of 128 k, a stage each: a stage's sums are scaled while they are added.
template <typename Kernel>
struct BlockScaledMainLoop {
  static_assert(!Kernel::ping_pong, "in ping-pong a turn's products stay in the tensor core");

  // As PlainMainLoop's.
  template <typename Scale, typename DuringLastProduct>
  static __device__ __forceinline__ void multiply(const Pipeline& pipeline, PipelineState& at, int blocks,
                                                  int first_row, const Scale&, typename Kernel::Sums& sums,
                                                  const DuringLastProduct& during_last_product) {
    clear<Kernel>(sums);
    promote_stages<Kernel, BlockPromotion<Kernel>>(pipeline, at, blocks, first_row, sums);
    during_last_product();
  }
};

}  // namespace tileon::sm90
