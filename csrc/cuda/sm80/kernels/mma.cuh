// Tensor-core GEMM for any GPU from Ampere on: a pipeline of k-blocks filled by cp.async, ldmatrix, mma.sync.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/operand_tile.cuh"
#include "cuda/sm80/loaders/pipeline.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// The types and sizes of one kernel, from a config's tile, the operands' dtypes and majors.
template <TileConfig kConfig, typename ElementA_, Major kMajorA, Major kMajorB, typename ElementB_>
struct MmaKernel : FragmentKernel<kConfig, ElementA_, kMajorA, kMajorB, ElementB_> {
  using ElementA = ElementA_;
  using ElementB = ElementB_;
  using Base = FragmentKernel<kConfig, ElementA, kMajorA, kMajorB, ElementB>;
  using typename Base::TileA, typename Base::TileB;
  using ReaderA = VectorReader<ElementA, TileA, kConfig.tile_m, kConfig.block_k, Base::threads>;
  using ReaderB = VectorReader<ElementB, TileB, kConfig.tile_n, kConfig.block_k, Base::threads>;
  using Pipeline = sm80::Pipeline<kConfig.stages, kConfig.block_k, TileA::bytes, TileB::bytes, ReaderA, ReaderB>;
  static_assert(Base::shared_bytes >= Pipeline::bytes);
  static constexpr int min_capability = sizeof(ElementA) == 1 ? kFloat8Capability : 80;
};

// Sums a @ b over the CTA's k into one warp's accumulators.
template <typename Kernel>
__device__ __forceinline__ void multiply(typename Kernel::Pipeline& pipeline, const typename Kernel::LoaderA& loader_a,
                                         const typename Kernel::LoaderB& loader_b, int blocks,
                                         typename Kernel::Sums& sums) {
  uint32_t a[2][Kernel::LoaderA::kCount][4];
  uint32_t b[2][Kernel::LoaderB::kCount][4];
  const auto load = [&](int k_step, int buffer) {
    loader_a.load(pipeline.a(), k_step, a[buffer]);
    loader_b.load(pipeline.b(), k_step, b[buffer]);
  };
  multiply_blocks<Kernel::k_steps>(pipeline, blocks, load, [&](int buffer) {
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m)
      multiply_row<typename Kernel::ElementA, typename Kernel::ElementB>(m, a[buffer][m], b[buffer], sums[m]);
  });
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_mma(const __grid_constant__ KernelParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  if constexpr (!fits_this_architecture<Kernel::shared_bytes, Kernel::min_capability>()) {
    __trap();
  } else {
    const KernelProblem& problem = params.problem;
    constexpr TileConfig config = Kernel::config;
    const CtaTile tile(params, config);

    typename Kernel::ReaderA reader_a(problem.a, problem.dtype, tile.batch, tile.k_begin, tile.m_begin, problem.m);
    typename Kernel::ReaderB reader_b(problem.b, problem.b_dtype, tile.batch, tile.k_begin, tile.n_begin, problem.n);
    const typename Kernel::LoaderA loader_a(tile.warp_m, threadIdx.x % 32);
    const typename Kernel::LoaderB loader_b(tile.warp_n, threadIdx.x % 32);
    typename Kernel::Pipeline pipeline(static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory)), reader_a,
                                       reader_b, tile.k);
    typename Kernel::Sums sums = {};
    multiply<Kernel>(pipeline, loader_a, loader_b, tile.k_blocks, sums);
    pipeline.drain();  // from here on the slabs overwrite it
    store_fragments<typename Kernel::Slab>(params, tile.out, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n,
                                           shared_memory, sums);
  }
}

}  // namespace tileon::sm80
