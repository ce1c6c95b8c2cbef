// One tile of the output a cluster: its CTAs split k and add their sums through each other's shared memory, in a fixed
// order. For few tiles with a long k and, with the operands swapped, for few rows of a, which read b at the memory's
// rate.
#pragma once

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/epilogue/cluster_reduce.cuh"
#include "cuda/sm90/layout/named_barriers.cuh"
#include "cuda/sm90/mainloop/mma.cuh"
#include "cuda/sm90/mainloop/mma_bf16x6.cuh"
#include "cuda/sm90/mainloop/producer.cuh"
#include "cuda/sm90/mainloop/prologue.cuh"
#include "cuda/sm90/mainloop/traits.cuh"

namespace tileon::sm90 {

template <typename Kernel>
__device__ __forceinline__ void multiply_into_slab(const Pipeline& pipeline, int blocks, float* slab, int warp) {
  const int first_row = warp / 4 * Kernel::config.consumer_rows();
  PipelineState at;
  typename Kernel::Sums sums;
  if constexpr (Kernel::is_bf16x6) {
    multiply_bf16x6<Kernel>(pipeline, at, blocks, first_row, sums, [] {});
  } else {
    multiply<Kernel>(pipeline, at, blocks, first_row, sums, [] {});
  }
  ptx::barrier_sync(kAllConsumers, Kernel::config.consumers * 128);  // the slab takes the pipeline's place
  write_slab<Kernel>(slab, sums, first_row);
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
  const int warp = warp_index();
  const bool is_consumer = warp < Kernel::producer_warp;
  Producer<Kernel> producer(params, pipeline);
  start<Kernel>(params, pipeline, warp,
                [&] { producer.start(position_of<Kernel>(params, blockIdx.x), first_block()); });

  TilePosition position;
  if (is_consumer) {
    position = position_of<Kernel>(params, blockIdx.x);
    multiply_into_slab<Kernel>(pipeline, params.blocks_per_split, shared.slab(), warp);
  } else {
    producer.load_blocks(first_block() + 1, first_block() + params.blocks_per_split);
  }

  if (splits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();  // all slabs are written
  } else {
    __syncthreads();
  }
  if (is_consumer) {
    ptx::grid_dependency_wait();  // before the bias is read and the output written
    store_share<Kernel>(params, shared.slab(), position.m_begin, position.n_begin, position.batch, rank, splits);
  }
  if (splits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();  // nobody leaves while another reads its slab
  }
}

}  // namespace tileon::sm90
