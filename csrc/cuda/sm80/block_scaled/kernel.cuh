// Block-scaled GEMM for any GPU from Ampere on: codes become bfloat16 on their way to shared memory, exactly, and the
// tensor cores multiply those as in the dense kernel (mma/kernel.cuh).
#pragma once

#include <cstdint>

#include "cuda/common/kernel_problem.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/block_scaled/main_loop.cuh"
#include "cuda/sm80/block_scaled/wide.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/tile/cta_tile.cuh"
#include "cuda/sm80/tile/fragments.cuh"

namespace tileon::sm80 {

// The types and sizes of one kernel, from a row of the table and the operands' formats.
template <TileConfig kConfig, DType kA, DType kB, ScaleType kScale>
struct BlockScaledKernel {
  using Element = __nv_bfloat16;  // as multiplied
  static constexpr TileConfig config = kConfig;
  static constexpr int threads = kConfig.threads();
  static_assert(kConfig.block_k == kScaledBlockK && kConfig.stages == 3);
  using ChunkA = ChunkOf<kA, kScale, kConfig.tile_m, threads>;
  using ChunkB = ChunkOf<kB, kScale, kConfig.tile_n, threads>;
  using TileA = OperandTile<Element, kConfig.tile_m, kScaledBlockK, Major::kK>;
  using TileB = OperandTile<Element, kConfig.tile_n, kScaledBlockK, Major::kK>;
  using ChunksA = ChunkLoader<ChunkA, kConfig.tile_m, threads>;
  using ChunksB = ChunkLoader<ChunkB, kConfig.tile_n, threads>;
  using ReaderA = DequantizingReader<ChunkA, TileA, kConfig.tile_m, threads>;
  using ReaderB = DequantizingReader<ChunkB, TileB, kConfig.tile_n, threads>;
  using LoaderA = FragmentLoader<Element, TileA, Side::kA, kConfig.warp_m()>;
  using LoaderB = FragmentLoader<Element, TileB, Side::kB, kConfig.warp_n()>;

  static constexpr int k_steps = kScaledBlockK * int(sizeof(Element)) / kBytesPerKStep;
  static constexpr int fragments_m = LoaderA::kCount;      // of 16 rows
  static constexpr int fragments_n = LoaderB::kCount * 2;  // of 8 columns
  using Slab = FragmentSlab<float, kConfig>;

  // bfloat16 holds every product of e2m1 and a scale
  static constexpr bool may_be_wide = kA == DType::kFloat8E4M3 || kB == DType::kFloat8E4M3;
  using WideA = WideOperand<ChunkA, kConfig.tile_m, threads>;
  using WideB = WideOperand<ChunkB, kConfig.tile_n, threads>;

  static constexpr int shared_bytes = sm80::shared_bytes(kConfig, sizeof(Element));
  static_assert(shared_bytes >= DecodedStages<BlockScaledKernel>::bytes && shared_bytes >= threads / 32 * Slab::bytes &&
                shared_bytes >= WideA::Tile::bytes + WideB::Tile::bytes);
};

template <typename Kernel>
__device__ __forceinline__ void multiply_by(float factor, float (&sums)[Kernel::fragments_m][Kernel::fragments_n][4]) {
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (auto& fragment : row)
#pragma unroll
      for (float& sum : fragment) sum *= factor;
}

// Sums all of k, through bfloat16 and, where that loses something of this tile's operands, once more.
template <typename Kernel>
__device__ __forceinline__ void multiply_tile(const ScaledKernelProblem& problem, const CtaTile& tile, uint32_t shared,
                                              float (&sums)[Kernel::fragments_m][Kernel::fragments_n][4]) {
  const typename Kernel::ChunksA chunks_a(problem.a, problem.m, problem.k, tile.m_begin);
  const typename Kernel::ChunksB chunks_b(problem.b, problem.n, problem.k, tile.n_begin);
  typename Kernel::ReaderA reader_a(chunks_a);
  typename Kernel::ReaderB reader_b(chunks_b);
  const typename Kernel::LoaderA loader_a(tile.warp_m, threadIdx.x % 32);
  const typename Kernel::LoaderB loader_b(tile.warp_n, threadIdx.x % 32);
  DecodedStages<Kernel> stages(shared, reader_a, reader_b);
  multiply_decoded<Kernel>(stages, loader_a, loader_b, tile.k_blocks, sums);
  if constexpr (Kernel::may_be_wide) {
    if (__syncthreads_or(reader_a.saw_beyond_bfloat16() || reader_b.saw_beyond_bfloat16()))
      multiply_wide<Kernel>(chunks_a, chunks_b, tile, shared, sums);
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_block_scaled(const __grid_constant__ BlockScaledParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  if constexpr (!fits_this_architecture<Kernel::shared_bytes>()) {
    __trap();
  } else {
    const ScaledKernelProblem& problem = params.problem;
    if (!holds(problem.device_flag)) return;
    constexpr TileConfig config = Kernel::config;
    const CtaTile tile(params, config);
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    float sums[Kernel::fragments_m][Kernel::fragments_n][4] = {};
    if (problem.k > 0) multiply_tile<Kernel>(problem, tile, shared, sums);
    if (problem.global_scale != nullptr) multiply_by<Kernel>(*problem.global_scale, sums);
    store_fragments<typename Kernel::Slab>(params, tile.batch, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n,
                                           shared_memory, sums);
  }
}

}  // namespace tileon::sm80
