// Tensor-core GEMM of a few k, of operands of any alignment and strides: 16 bits, fp8 and TF32. A lane loads its
// elements of mma.sync's fragments from global memory itself: no k-block passes through shared memory, so that a CTA is
// done after a load, some products and its store. A longer k is the work of kernels/gather.cuh, where an element is
// loaded once a CTA, not once for each of its warps.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/direct_reader.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// The types and sizes of one kernel, from a config's tile and the operands' dtype. One serves all pairs of fp8, and all
// strides.
template <TileConfig kConfig, typename Stored>
struct DirectKernel {
  using Element = ElementInTile<Stored>;
  static constexpr TileConfig config = kConfig;
  static constexpr int threads = kConfig.threads();
  static constexpr int fragments_m = kConfig.warp_m() / 16;
  static constexpr int fragments_n = kConfig.warp_n() / 8;
  using ReaderA = DirectReader<Stored, fragments_m * 2, kConfig.block_k>;
  using ReaderB = DirectReader<Stored, fragments_n, kConfig.block_k>;
  using Sums = float[fragments_m][fragments_n][4];
  using Slab = WarpSlab<float, kConfig>;
  static constexpr int shared_bytes = sm80::shared_bytes(kConfig, sizeof(Element));
  static_assert(shared_bytes >= threads / 32 * Slab::bytes);
};

// Adds the products of one step of k.
template <typename Kernel>
__device__ __forceinline__ void multiply_step(const typename Kernel::ReaderA& a, const typename Kernel::ReaderB& b,
                                              int step, typename Kernel::Sums& sums) {
  uint32_t words_a[Kernel::fragments_m * 2][2], words_b[Kernel::fragments_n][2];
  a.words(step, words_a);
  b.words(step, words_b);
#pragma unroll
  for (int m = 0; m < Kernel::fragments_m; ++m) {
    const uint32_t rows[4] = {words_a[2 * m][0], words_a[2 * m + 1][0], words_a[2 * m][1], words_a[2 * m + 1][1]};
#pragma unroll
    for (int n = 0; n < Kernel::fragments_n; ++n)
      ptx::mma_m16n8<typename Kernel::Element, typename Kernel::Element>(sums[m][n], rows, words_b[n][0],
                                                                         words_b[n][1]);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_direct(const __grid_constant__ KernelParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  const KernelProblem& problem = params.problem;
  constexpr TileConfig config = Kernel::config;
  const CtaTile tile(params, config);
  const int64_t row = tile.m_begin + tile.warp_m, column = tile.n_begin + tile.warp_n;
  if (row >= problem.m || column >= problem.n) return;  // no warp waits for another
  typename Kernel::ReaderA a(problem.a, problem.dtype, tile.batch, row, problem.m);
  typename Kernel::ReaderB b(problem.b, problem.b_dtype, tile.batch, column, problem.n);
  typename Kernel::Sums sums = {};
  constexpr int steps = Kernel::ReaderA::steps;
#pragma unroll 1
  for (int64_t left = problem.k; left > 0; left -= config.block_k) {
    const int count = left < config.block_k ? static_cast<int>(left) : config.block_k;
    a.fetch(count);
    b.fetch(count);
#pragma unroll
    for (int step = 0; step < steps; ++step)
      if (step * Kernel::ReaderA::step_k < count) multiply_step<Kernel>(a, b, step, sums);
  }
  store_fragments<typename Kernel::Slab>(params, tile.out, row, column, shared_memory, sums);
}

}  // namespace tileon::sm80
