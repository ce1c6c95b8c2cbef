// Block-scaled products of few rows of a, bound by reading b and decoding it: nothing is prepared, and no memory is
// taken. One tile of the output a cluster, whose CTAs split k.
#pragma once

#include <type_traits>

#include "../../../ptx/cluster.cuh"
#include "../../../ptx/grid_dependency.cuh"
#include "../../start.cuh"
#include "consumer.cuh"
#include "consumer_float8.cuh"
#include "decoder.cuh"
#include "kernel_types.cuh"
#include "params.h"
#include "producer.cuh"
#include "store.cuh"

namespace tileon::sm90 {

// Returns when all threads of all CTAs of the cluster have come, and what they wrote to shared memory can be read.
__device__ __forceinline__ void sync_cluster(int splits) {
  __syncwarp();
  if (splits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    __syncthreads();
  }
}

// Whether a CTA of the cluster lost something.
__device__ __forceinline__ bool any_lost(uint32_t word, int splits) {
  bool any = false;
  for (int split = 0; split < splits; ++split) any |= ptx::load_cluster_4(ptx::map_to_cta(word, split)) != 0;
  return any;
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1)
    block_scaled_few_rows(const __grid_constant__ FewRowsParams params) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared));
  const FewRowsRing shared{Ring(base, base + kBarrierBytes, Kernel::stage.bytes, params.stages), base + kLandedBegin};
  const int rank = blockIdx.y;  // in the cluster
  const int warp = warp_index();
  const int m_begin = static_cast<int>(blockIdx.x) / params.tiles_n * Kernel::tile_m;
  const int n_begin = static_cast<int>(blockIdx.x) % params.tiles_n * kFewRowsTileN;
  const int first_block = rank * params.blocks_per_split;
  const int blocks = max(0, min(params.blocks_per_split, params.blocks - first_block));
  Producer<Kernel> producer(params, shared, m_begin, n_begin);
  if (warp == Kernel::producer_warp) producer.start(first_block, blocks);
  if (warp == 0 && ptx::elect_one()) shared.ring.init_empty(Kernel::consumers / Kernel::parts);
  if (warp == 1 && ptx::elect_one()) shared.ring.init_full(1, params.stages, kFullArrivals);
  if (warp == 2 && ptx::elect_one()) shared.init_landed(1, params.stages);
  auto* lost_word = reinterpret_cast<unsigned*>(dynamic_shared + kLostWord);
  if (Kernel::may_lose && threadIdx.x == 0) *lost_word = 0;
  __syncthreads();
  ptx::grid_dependency_launch();
  ptx::grid_dependency_wait();

  // The sums of this CTA's k in its slab, which may take the ring's place. Returns, when the whole cluster's are there,
  // whether anything was lost in it. `loaded` blocks are under way already, `passed` went through the ring before.
  auto* slab = reinterpret_cast<float*>(dynamic_shared + kBarrierBytes +
                                        few_rows_slab_begin(Kernel::tile_m, params.stages * Kernel::stage.bytes));
  const auto multiply = [&](auto way, int loaded, int passed) {
    constexpr Way kWay = way;
    bool lost = false;
    typename Kernel::Sums sums;
    if (warp < Kernel::first_decoder) {
      if constexpr (kWay == Way::kFloat8) {
        Float8Consumer<Kernel>(shared, warp).multiply(blocks, sums);
      } else {
        lost = Consumer<Kernel>(params, shared, n_begin, warp).multiply(first_block, blocks, passed, sums);
      }
    } else if (warp < Kernel::producer_warp) {
      lost = Decoder<Kernel>(params, shared, m_begin, n_begin).template decode<kWay>(first_block, blocks, passed);
    } else {
      producer.load_blocks(first_block + loaded, first_block + blocks);
    }
    if (Kernel::may_lose && lost) atomicOr(lost_word, 1u);
    __syncthreads();
    if (warp < Kernel::first_decoder) write_sums<Kernel>(slab, warp, sums);
    sync_cluster(params.splits);
    return Kernel::may_lose && any_lost(base + kLostWord, params.splits);
  };

  constexpr Way first_way = Kernel::format.is_mxfp4() ? Way::kFloat8 : Way::k16Bits;
  float factor = Kernel::format.is_mxfp4() ? kFloat8Factor : kMovedFactor<Kernel::scale> * kMovedFactor<Kernel::scale>;
  bool lost = multiply(std::integral_constant<Way, first_way>(), 1, 0);
  if constexpr (first_way == Way::kFloat8) {
    if (lost) {
      ptx::fence_proxy_async();  // the ring may take the slab's place again
      sync_cluster(params.splits);
      multiply(std::integral_constant<Way, Way::k16Bits>(), 0, blocks);
      factor = 1.0f;
      lost = false;
    }
  }
  if (warp < Kernel::first_decoder) store_share<Kernel>(params, slab, m_begin, n_begin, rank, warp, factor, lost);
  if (params.splits > 1) {  // nobody leaves while another reads its slab
    __syncwarp();
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
}

}  // namespace tileon::sm90
