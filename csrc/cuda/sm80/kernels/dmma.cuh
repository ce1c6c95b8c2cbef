// Float64 GEMM on the tensor cores: the pipeline and panels of the SIMT kernel, mma.sync in float64, its sums in
// float64.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/operand_panel.cuh"
#include "cuda/sm80/loaders/pipeline.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"
#include "cuda/sm80/tile/fragments.cuh"

namespace tileon::sm80 {

constexpr int kKPerDmma = 4;

template <TileConfig kConfig, PanelAccess kAccessA, PanelAccess kAccessB>
struct DmmaKernel {
  static constexpr TileConfig config = kConfig;
  static constexpr int threads = kConfig.threads();
  static constexpr int padding = panel_padding(kConfig.family);
  using PanelA = Panel<double, kConfig.tile_m, kConfig.block_k, padding>;
  using PanelB = Panel<double, kConfig.tile_n, kConfig.block_k, padding>;
  using ReaderA = PanelReader<PanelA, kAccessA, threads>;
  using ReaderB = PanelReader<PanelB, kAccessB, threads>;
  static_assert(kConfig.stages >= 3, "a transposed block lands one fetch later");
  using Pipeline = sm80::Pipeline<kConfig.stages, kConfig.block_k, PanelA::bytes, PanelB::bytes, ReaderA, ReaderB>;
  using Slab = FragmentSlab<double, kConfig>;
  static constexpr int k_steps = kConfig.block_k / kKPerDmma;
  static constexpr int fragments_m = kConfig.warp_m() / 16;
  static constexpr int fragments_n = kConfig.warp_n() / 8;
  static constexpr int shared_bytes = sm80::shared_bytes(kConfig, sizeof(double));
  static_assert(shared_bytes >= Pipeline::bytes && shared_bytes >= threads / 32 * Slab::bytes);
};

// Sums a @ b over all of k into one warp's accumulators. `warp_m` and `warp_n` say where the warp's tile begins.
template <typename Kernel>
__device__ __forceinline__ void multiply(typename Kernel::Pipeline& pipeline, int warp_m, int warp_n, int blocks,
                                         double (&sums)[Kernel::fragments_m][Kernel::fragments_n][4]) {
  const int lane = threadIdx.x % 32;
  const int lane_k = lane % 4;
  const int lane_mn = lane / 4;
  double a[2][Kernel::fragments_m][2];
  double b[2][Kernel::fragments_n];
  const auto load = [&](int k_step, int buffer) {
    const int k = k_step * kKPerDmma + lane_k;
    const uint32_t a_row = pipeline.a() + (k * Kernel::PanelA::pitch + warp_m + lane_mn) * int(sizeof(double));
    const uint32_t b_row = pipeline.b() + (k * Kernel::PanelB::pitch + warp_n + lane_mn) * int(sizeof(double));
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m) {
      a[buffer][m][0] = ptx::load_shared_double(a_row + m * 16 * int(sizeof(double)));
      a[buffer][m][1] = ptx::load_shared_double(a_row + (m * 16 + 8) * int(sizeof(double)));
    }
#pragma unroll
    for (int n = 0; n < Kernel::fragments_n; ++n)
      b[buffer][n] = ptx::load_shared_double(b_row + n * 8 * int(sizeof(double)));
  };
  multiply_blocks<Kernel::k_steps>(pipeline, blocks, load, [&](int buffer) {
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m)
#pragma unroll
      for (int n = 0; n < Kernel::fragments_n; ++n) ptx::mma_m16n8k4(sums[m][n], a[buffer][m], b[buffer][n]);
  });
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_dmma(const __grid_constant__ KernelParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  constexpr TileConfig config = Kernel::config;
  const KernelProblem& problem = params.problem;
  const CtaTile tile(params, config);

  typename Kernel::ReaderA reader_a(problem.a, tile.batch, tile.m_begin, problem.m);
  typename Kernel::ReaderB reader_b(problem.b, tile.batch, tile.n_begin, problem.n);
  typename Kernel::Pipeline pipeline(static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory)), reader_a, reader_b,
                                     problem.k);
  double sums[Kernel::fragments_m][Kernel::fragments_n][4] = {};
  multiply<Kernel>(pipeline, tile.warp_m, tile.warp_n, tile.k_blocks, sums);
  pipeline.drain();  // from here on the slabs overwrite it
  store_fragments<typename Kernel::Slab>(params, tile.batch, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n,
                                         shared_memory, sums);
}

}  // namespace tileon::sm80
