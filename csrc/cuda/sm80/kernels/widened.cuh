// Tensor-core GEMM of fp8 operands that mma.sync's fp8 instructions cannot take, most of all those along m or n: their
// codes become float16 in shared memory, which ldmatrix transposes.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/widening_reader.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// The types and sizes of one kernel, from a config's tile and the operands' majors. One serves all pairs of fp8. In
// shared memory lie two tiles of float16, of which one is filled while warps read the other, and the readers' rings.
template <TileConfig kConfig, Major kMajorA, Major kMajorB>
struct WidenedKernel : FragmentKernel<kConfig, __half, kMajorA, kMajorB> {
  using Base = FragmentKernel<kConfig, __half, kMajorA, kMajorB>;
  using typename Base::TileA, typename Base::TileB;
  static constexpr int blocks = kConfig.stages;  // k-blocks that a ring holds
  using ReaderA = WideningReader<TileA, kConfig.tile_m, kConfig.block_k, Base::threads, blocks>;
  using ReaderB = WideningReader<TileB, kConfig.tile_n, kConfig.block_k, Base::threads, blocks>;
  static constexpr int tile_bytes = TileA::bytes + TileB::bytes;
  static constexpr int ring_a = kWidenedTiles * tile_bytes;  // from the start of shared memory
  static constexpr int ring_b = ring_a + ReaderA::ring_bytes;
  static_assert(Base::shared_bytes >= ring_b + ReaderB::ring_bytes);
};

// Adds the products of the k-block at `tile`; the fragments of a step are read while those before are multiplied, for
// which this kernel has the registers: its codes wait in shared memory.
template <typename Kernel>
__device__ __forceinline__ void multiply_widened_block(uint32_t tile, const typename Kernel::LoaderA& loader_a,
                                                       const typename Kernel::LoaderB& loader_b,
                                                       typename Kernel::Sums& sums) {
  uint32_t a[2][Kernel::LoaderA::kCount][4];
  uint32_t b[2][Kernel::LoaderB::kCount][4];
  const auto load = [&](int step) {
    loader_a.load(tile, step, a[step % 2]);
    loader_b.load(tile + Kernel::TileA::bytes, step, b[step % 2]);
  };
  load(0);
#pragma unroll
  for (int step = 0; step < Kernel::k_steps; ++step) {
    if (step + 1 < Kernel::k_steps) load(step + 1);
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m) multiply_row<__half, __half>(m, a[step % 2][m], b[step % 2], sums[m]);
  }
}

// Sums a @ b over the CTA's k into one warp's accumulators. When this returns, shared memory is free.
template <typename Kernel>
__device__ __forceinline__ void multiply_widened(typename Kernel::ReaderA& reader_a, typename Kernel::ReaderB& reader_b,
                                                 const CtaTile& tile, uint32_t shared, typename Kernel::Sums& sums) {
  const typename Kernel::LoaderA loader_a(tile.warp_m, threadIdx.x % 32);
  const typename Kernel::LoaderB loader_b(tile.warp_n, threadIdx.x % 32);
  constexpr int block_k = Kernel::config.block_k;
  int64_t k_left = tile.k;  // to fetch
  const auto fetch = [&] {
    const int k_count = k_left < block_k ? static_cast<int>(k_left) : block_k;
    if (k_count > 0) {
      reader_a.fetch(k_count);
      reader_b.fetch(k_count);
      k_left -= k_count;
    }
    ptx::cp_async_commit();  // an empty group too: a count of groups stays a count of k-blocks
  };
  for (int block = 0; block < Kernel::blocks; ++block) fetch();
#pragma unroll 1
  for (int block = 0; block < tile.k_blocks; ++block) {
    const uint32_t widened = shared + block % kWidenedTiles * Kernel::tile_bytes;
    typename Kernel::ReaderA::Codes codes_a;
    typename Kernel::ReaderB::Codes codes_b;
    ptx::cp_async_wait<Kernel::blocks - 1>();  // this thread's copies of the k-block have arrived
    reader_a.read(codes_a);
    reader_b.read(codes_b);
    reader_a.widen(codes_a, widened);
    reader_b.widen(codes_b, widened + Kernel::TileA::bytes);
    fetch();          // into the place in the ring that `read` has emptied
    __syncthreads();  // the tile is there for all threads, and all are done with the other one
    multiply_widened_block<Kernel>(widened, loader_a, loader_b, sums);
  }
  __syncthreads();
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_widened(const __grid_constant__ KernelParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  if constexpr (!fits_this_architecture<Kernel::shared_bytes>()) {
    __trap();
  } else {
    const KernelProblem& problem = params.problem;
    constexpr TileConfig config = Kernel::config;
    const CtaTile tile(params, config);
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    typename Kernel::ReaderA reader_a(problem.a, problem.dtype, tile.batch, tile.k_begin, tile.m_begin, problem.m,
                                      shared + Kernel::ring_a);
    typename Kernel::ReaderB reader_b(problem.b, problem.b_dtype, tile.batch, tile.k_begin, tile.n_begin, problem.n,
                                      shared + Kernel::ring_b);
    typename Kernel::Sums sums = {};
    multiply_widened<Kernel>(reader_a, reader_b, tile, shared, sums);
    store_fragments<typename Kernel::Slab>(params, tile.out, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n,
                                           shared_memory, sums);
  }
}

}  // namespace tileon::sm80
