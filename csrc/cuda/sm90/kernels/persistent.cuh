// GEMM for Hopper: one producer warp feeds a pipeline through TMA, consumer warpgroups multiply by wgmma and store, and
// every CTA walks over tiles of the output. In the cooperative form the consumers share each tile by its rows; in
// ping-pong they own tiles in turn, and one stores while the other multiplies.
#pragma once

#include <type_traits>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/block_scale.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/epilogue/tma_store.cuh"
#include "cuda/sm90/kernels/cluster_tiles.cuh"
#include "cuda/sm90/kernels/stream_k.cuh"
#include "cuda/sm90/layout/encoding.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

template <typename Kernel>
__device__ __forceinline__ void produce(const KernelParams& params, Producer<Kernel>& producer) {
  producer.load_blocks(1, params.k_blocks);  // the first tile's first block is on its way
  typename Kernel::Scheduler tiles(params, blockIdx.x + gridDim.x, gridDim.x);
  Watchdog watchdog;
  for (; tiles.has_tile(); tiles.advance()) {
    watchdog.tick();
    producer.move_to(tiles.position());
    producer.load_blocks(0, params.k_blocks);
  }
}

// What the producer's warp does of a kernel whose Scheduler shares tiles: its first load, and the others. Not in the
// loop of other kernels: asked for a tile's blocks there, ptxas schedules all of them anew.
template <typename Kernel>
__device__ __forceinline__ void start_parts(const typename Kernel::Params& params, Producer<Kernel>& producer) {
  const typename Kernel::Scheduler tiles(params, blockIdx.x, gridDim.x);
  producer.start(tiles.position(), tiles.first_block());
}

template <typename Kernel>
__device__ __forceinline__ void produce_parts(const typename Kernel::Params& params, Producer<Kernel>& producer) {
  typename Kernel::Scheduler tiles(params, blockIdx.x, gridDim.x);
  producer.load_blocks(tiles.first_block() + 1, tiles.end_block());
  for (tiles.advance(); tiles.has_tile(); tiles.advance()) {
    producer.move_to(tiles.position());
    producer.load_blocks(tiles.first_block(), tiles.end_block());
  }
}

// What warp `number` of those does that write the stages' scales.
template <typename Kernel>
__device__ __forceinline__ void write_stage_scales(const typename Kernel::Params& params,
                                                   const typename Kernel::StagePipeline& pipeline, int number) {
  StageScalesWriter<Kernel> scales(params, pipeline, number);
  ptx::grid_dependency_wait();
  typename Kernel::Scheduler tiles(params, blockIdx.x, gridDim.x);
  for (; tiles.has_tile(); tiles.advance()) {
    if constexpr (Kernel::Scheduler::shares_tiles) {
      scales.write(tiles.position(), tiles.first_block(), tiles.end_block());
    } else {
      scales.write(tiles.position(), 0, params.k_blocks);
    }
  }
}

template <typename Kernel>
__device__ __forceinline__ void consume(const typename Kernel::Params& params,
                                        const typename Kernel::StagePipeline& pipeline,
                                        const typename Kernel::Shared& shared, int warp) {
  constexpr bool ping_pong = Kernel::ping_pong;
  const int consumer = Kernel::config.consumers == 1 ? 0 : warp / 4;
  const int first_row = ping_pong ? 0 : consumer * Kernel::config.consumer_rows();
  const int warp_row = first_row + warp % 4 * kStoreRows;  // wgmma's
  const float* warp_bias = shared.bias(consumer) + (Kernel::swapped ? warp_row : 0);
  ptx::grid_dependency_wait();  // before the bias is read and the output written
  Kernel::AccumulatorScale::summarize(params, warp, Kernel::config.consumers * 4);
  PipelineState at;
  int first_tile = blockIdx.x;
  const int step = ping_pong ? 2 * gridDim.x : gridDim.x;
  if (ping_pong && consumer == 1) {
    ptx::barrier_arrive(main_loop_barrier(0), 256);  // consumer 0 begins
    first_tile += gridDim.x;
    at.advance_by(params.k_blocks, pipeline.stages());
  }
  typename Kernel::Scheduler tiles(params, first_tile, step);
  unsigned char* warp_shared = shared.warp_store(warp);
  Watchdog watchdog;
  // The next tile's position is worked out beside this tile's products; not in ping-pong, which has time for it later,
  // nor in a watchdog's kernels, which have no registers to keep it in.
  constexpr bool knows_next = !ping_pong && !kWatchdog;
  TilePosition next{};
  if (knows_next) next = tiles.position();
  for (; tiles.has_tile(); tiles.advance()) {
    watchdog.tick();
    const TilePosition position = knows_next ? next : tiles.position();
    TileBias<Kernel::config.tile_n> bias;
    bias.read(params.problem, position.n_begin);
    typename Kernel::AccumulatorScale scale;
    const int row = (Kernel::swapped ? position.n_begin : position.m_begin) + warp_row;
    const int column = Kernel::swapped ? position.m_begin : position.n_begin;
    if constexpr (Kernel::Scheduler::shares_tiles) {
      scale.read(params, row, tiles.first_block(), column);
    } else {
      scale.read(params, row, column);
    }
    FirstBias<Kernel> first_bias;
    const auto to_smem = [&] {
      scale.to_smem(shared, consumer);
      if (params.epilogue_op != EpilogueOp::kNothing)
        bias.to_smem(params.problem.epilogue, shared.bias(consumer), consumer);
    };
    const auto during_last_product = [&] {
      // All of this tile's stages have come, so the other consumer may wait for its own tile's stages: its products
      // queue up behind this tile's.
      if (ping_pong) return ptx::barrier_arrive(main_loop_barrier(1 - consumer), 256);
      if (knows_next) next = tiles.next_position();
      to_smem();
      if (Kernel::reads_bias_early && params.epilogue_op != EpilogueOp::kNothing) first_bias.read(warp_bias);
    };

    // The main loops take turns: a consumer that waited two rounds of the pipeline ahead would find the parity it asks
    // for there already, and read a stage before its time.
    if (ping_pong) {
      to_smem();  // while the other consumer multiplies
      ptx::barrier_sync(main_loop_barrier(consumer), 256);
    }
    typename Kernel::Sums sums;
    int blocks = params.k_blocks;
    if constexpr (Kernel::Scheduler::shares_tiles) blocks = tiles.blocks();
    Kernel::MainLoop::multiply(pipeline, at, blocks, first_row, scale, sums, during_last_product);
    if constexpr (Kernel::Scheduler::shares_tiles)
      if (!tiles.finish_sums(shared, consumer, sums)) continue;
    if (ping_pong) at.advance_by(params.k_blocks, pipeline.stages());  // the other consumer's tile
    const StorePlace place{position.m_begin + (Kernel::swapped ? 0 : warp_row),
                           position.n_begin + (Kernel::swapped ? warp_row : 0), position.batch};
    Kernel::Store::store(params, warp_shared, scale.results(params, shared, consumer, sums), warp_bias, first_bias,
                         place);
  }
  wait_for_tma_stores();
  if constexpr (Kernel::shares_operand) {
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();  // nobody leaves while another releases a stage of its
  }
}

// Registers of each thread of three or two consumers, and of the producer's warpgroup, in units of 8. Each warpgroup
// has one warp in each quarter of an SM; a quarter has 512 registers a lane, of which the kernel starts with an even
// share for each warpgroup, and the counts add up to those shares.
// A fold of 192 columns has two sums of each, 192 registers, and as many has a tile of 128 columns that promotes
// behind: beside them 232 are not enough.
constexpr int consumer_registers(const TileConfig& tile) {
  const bool has_192_sums = (is_fold(tile) && tile.mma_columns() > 160) || tile.promotes_behind;
  return tile.consumers == 3 ? 160 : has_192_sums ? 240 : 232;
}
constexpr int producer_registers(const TileConfig& tile) {
  const int even_share = tile.consumers == 3 ? 128 : 168;
  return (tile.consumers + 1) * even_share - tile.consumers * consumer_registers(tile);
}
constexpr bool are_shares_of_registers(const TileConfig& tile) {
  return !tile.reallocates_registers() || (producer_registers(tile) >= 24 && producer_registers(tile) % 8 == 0);
}

// All of a kernel. `params` is a kernel's parameter, or lies in one: TMA reads its maps from there.
template <typename Kernel>
__device__ __forceinline__ void multiply_tiles(const typename Kernel::Params& params) {
  unsigned char* dynamic_shared = ptx::DynamicShared<1024>{}.begin;
  const typename Kernel::Shared shared(dynamic_shared);
  const typename Kernel::StagePipeline pipeline = shared.pipeline(Kernel::stage_bytes, params.stages);
  const int warp = warp_index();
  Producer<Kernel> producer(params, pipeline);
  constexpr bool shares_tiles = Kernel::Scheduler::shares_tiles;
  static_assert(are_shares_of_registers(Kernel::config), "setmaxnreg takes multiples of 8 from 24 on");
  start<Kernel>(params, pipeline, warp, [&] {
    if constexpr (shares_tiles) {
      start_parts<Kernel>(params, producer);
    } else {
      producer.start(Kernel::Scheduler::position_of(params, blockIdx.x), 0);
    }
  });

  if (warp < Kernel::producer_warp) {
    if constexpr (Kernel::config.reallocates_registers()) ptx::acquire_registers<consumer_registers(Kernel::config)>();
    consume<Kernel>(params, pipeline, shared, warp);
  } else {
    if constexpr (Kernel::config.reallocates_registers()) ptx::release_registers<producer_registers(Kernel::config)>();
    if constexpr (constexpr int warps = Kernel::config.scale_warps(); warps > 0) {
      const int number = warp - Kernel::producer_warp - 1;
      if (number >= 0 && number < warps) return write_stage_scales<Kernel>(params, pipeline, number);
    }
    if (Kernel::config.reallocates_registers() && warp != Kernel::producer_warp) return;
    if constexpr (shares_tiles) {
      produce_parts<Kernel>(params, producer);
    } else {
      produce<Kernel>(params, producer);
    }
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::config.threads(), 1)
    gemm(const __grid_constant__ typename Kernel::Params params) {
  multiply_tiles<Kernel>(params);
}

// For mxfp4, whose data decide what is multiplied (layout/encoding.h): the product of each encoding is a kernel in
// itself. `Float8` is void where fast_accum is not meant.
template <typename Int8, typename BFloat16, typename Float8>
__global__ void __launch_bounds__(Int8::config.threads(), 1)
    gemm_by_encoding(const __grid_constant__ EncodingParams params) {
  static_assert(Int8::config.threads() == BFloat16::config.threads());
  switch (encoding_of(params.choice)) {
    case Encoding::kInt8:
      return multiply_tiles<Int8>(params.int8);
    case Encoding::kBFloat16:
      return multiply_tiles<BFloat16>(params.bfloat16);
    case Encoding::kE5M2:
      if constexpr (!std::is_void_v<Float8>) {
        static_assert(Float8::config.threads() == BFloat16::config.threads());
        multiply_tiles<Float8>(params.float8);
      }
  }
}

}  // namespace tileon::sm90
