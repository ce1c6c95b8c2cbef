// Tensor-core GEMM of operands that no 16-byte chunk fits: any alignment, any strides, 16 bits, fp8 and TF32. Products
// of a few k are its everyday work, so what a CTA does once is short: the pipeline begins in its loop.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/gather_reader.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// The types and sizes of one kernel, from a config's tile, the operands' dtype and majors. One serves all pairs of fp8.
template <TileConfig kConfig, typename Stored, Major kMajorA, Major kMajorB>
struct GatherKernel : FragmentKernel<kConfig, ElementInTile<Stored>, kMajorA, kMajorB> {
  using Element = ElementInTile<Stored>;
  using Base = FragmentKernel<kConfig, Element, kMajorA, kMajorB>;
  using typename Base::TileA, typename Base::TileB;
  using ReaderA = GatherReader<Stored, TileA, kConfig.tile_m, kConfig.block_k, Base::threads>;
  using ReaderB = GatherReader<Stored, TileB, kConfig.tile_n, kConfig.block_k, Base::threads>;
  static constexpr int ahead = kConfig.stages - 1;  // k-blocks that are fetched ahead of their products
  static constexpr int stage_bytes = TileA::bytes + TileB::bytes;
  static_assert(Base::shared_bytes >= kConfig.stages * stage_bytes);
  static_assert(ahead == 2, "a k-block that waited in registers is there one fetch later");
};

// Adds the products of the k-block at `stage`.
template <typename Kernel>
__device__ __forceinline__ void multiply_block(uint32_t stage, const typename Kernel::LoaderA& loader_a,
                                               const typename Kernel::LoaderB& loader_b, typename Kernel::Sums& sums) {
#pragma unroll
  for (int step = 0; step < Kernel::k_steps; ++step) {
    uint32_t a[Kernel::LoaderA::kCount][4];
    uint32_t b[Kernel::LoaderB::kCount][4];
    loader_a.load(stage, step, a);
    loader_b.load(stage + Kernel::TileA::bytes, step, b);
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m)
      multiply_row<typename Kernel::Element, typename Kernel::Element>(m, a[m], b, sums[m]);
  }
}

// Sums a @ b over the CTA's k into one warp's accumulators. The stages are in `shared`; when this returns, they are
// free.
template <typename Kernel>
__device__ __forceinline__ void multiply_gathered(typename Kernel::ReaderA& reader_a,
                                                  typename Kernel::ReaderB& reader_b, const CtaTile& tile,
                                                  uint32_t shared, typename Kernel::Sums& sums) {
  const typename Kernel::LoaderA loader_a(tile.warp_m, threadIdx.x % 32);
  const typename Kernel::LoaderB loader_b(tile.warp_n, threadIdx.x % 32);
  const auto after = [&](uint32_t stage) {
    return stage == shared + Kernel::ahead * Kernel::stage_bytes ? shared : stage + Kernel::stage_bytes;
  };
  constexpr int block_k = Kernel::config.block_k;
  uint32_t fetched = shared, multiplied = shared;  // stages
  int64_t k_left = tile.k;                         // to fetch
#pragma unroll 1
  for (int block = -Kernel::ahead; block < tile.k_blocks; ++block) {
    if (block >= 0) {
      ptx::cp_async_wait<Kernel::ahead - 1>();
      __syncthreads();  // the k-block is there for all threads, and all are done with the one before it
    }
    reader_a.land();
    reader_b.land();
    if (k_left > 0) {
      const int k_count = k_left < block_k ? static_cast<int>(k_left) : block_k;
      reader_a.fetch(fetched, k_count);
      reader_b.fetch(fetched + Kernel::TileA::bytes, k_count);
      k_left -= k_count;
    }
    ptx::cp_async_commit();  // an empty group too: a count of groups stays a count of k-blocks
    fetched = after(fetched);
    if (block < 0) continue;  // nothing has come yet
    multiply_block<Kernel>(multiplied, loader_a, loader_b, sums);
    multiplied = after(multiplied);
  }
  __syncthreads();
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_gather(const __grid_constant__ KernelParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  if constexpr (!fits_this_architecture<Kernel::shared_bytes>()) {
    __trap();
  } else {
    const KernelProblem& problem = params.problem;
    constexpr TileConfig config = Kernel::config;
    const CtaTile tile(params, config);
    typename Kernel::ReaderA reader_a(problem.a, problem.dtype, tile.batch, tile.k_begin, tile.m_begin, problem.m);
    typename Kernel::ReaderB reader_b(problem.b, problem.b_dtype, tile.batch, tile.k_begin, tile.n_begin, problem.n);
    typename Kernel::Sums sums = {};
    multiply_gathered<Kernel>(reader_a, reader_b, tile, static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory)),
                              sums);
    store_fragments<typename Kernel::Slab>(params, tile.out, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n,
                                           shared_memory, sums);
  }
}

}  // namespace tileon::sm80
