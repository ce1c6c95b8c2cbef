// One tile of the output a cluster: its CTAs split k and add their sums through each other's shared memory, in a fixed
// order. For few tiles with a long k and, with the operands swapped, for few rows of a, which read b at the memory's
// rate.
#pragma once

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

template <typename Kernel>
__device__ __forceinline__ void multiply_and_stage(const Pipeline& pipeline, int blocks, float* staging, int warp) {
  const int first_row = warp / 4 * Kernel::config.consumer_rows();
  PipelineState at;
  typename Kernel::Sums sums;
  Kernel::MainLoop::multiply(pipeline, at, blocks, first_row, typename Kernel::AccumulatorScale(), sums, [] {});
  ptx::barrier_sync(kAllConsumers, Kernel::config.consumers * 128);  // the staging takes the pipeline's place
  Kernel::Store::stage_accumulators(staging, sums, first_row);
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::config.threads(), 1) split_k(const __grid_constant__ KernelParams params) {
  unsigned char* dynamic_shared = ptx::DynamicShared<1024>{}.begin;
  const typename Kernel::Shared shared(dynamic_shared);
  const Pipeline pipeline = shared.pipeline(Kernel::stage_bytes, params.stages);
  const int splits = params.splits;
  const int rank = blockIdx.y;  // in the cluster
  // Every CTA of a cluster multiplies as many blocks of k; those past the last one come as zeros.
  const auto first_block = [&] { return rank * params.blocks_per_split; };
  const auto this_tile = [&] { return Kernel::Scheduler::position_of(params, blockIdx.x); };
  const int warp = warp_index();
  const bool is_consumer = warp < Kernel::producer_warp;
  Producer<Kernel> producer(params, pipeline);
  start<Kernel>(params, pipeline, warp, [&] { producer.start(this_tile(), first_block()); });

  TilePosition position;
  if (is_consumer) {
    position = this_tile();
    multiply_and_stage<Kernel>(pipeline, params.blocks_per_split, shared.staging(), warp);
  } else {
    producer.load_blocks(first_block() + 1, first_block() + params.blocks_per_split);
  }

  if (splits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();  // all sums are staged
  } else {
    __syncthreads();
  }
  if (is_consumer) {
    ptx::grid_dependency_wait();  // before the bias is read and the output written
    Kernel::Store::store_share(params, shared.staging(), position, rank, splits);
  }
  if (splits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();  // nobody leaves while another reads what it staged
  }
}

}  // namespace tileon::sm90
