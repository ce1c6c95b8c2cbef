// Block-scaled products of few rows of a, bound by reading b and decoding it: nothing is prepared, and no memory is
// taken. One tile of the output a cluster, whose CTAs split k.
#pragma once

#include <type_traits>

#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/producer.cuh"
#include "cuda/sm90/small_m/consumer.cuh"
#include "cuda/sm90/small_m/decoder.cuh"
#include "cuda/sm90/small_m/lost_blocks.cuh"
#include "cuda/sm90/small_m/producer.cuh"
#include "cuda/sm90/small_m/store.cuh"
#include "cuda/sm90/small_m/traits.cuh"

namespace tileon::sm90 {

// Returns when all threads of all CTAs of the cluster have come, and what they wrote to shared memory can be read.
__device__ __forceinline__ void sync_cluster(int splits) {
  if (splits > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  } else {
    __syncthreads();
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1)
    block_scaled_small_m(const __grid_constant__ SmallMParams params) {
  unsigned char* dynamic_shared = ptx::DynamicShared<1024>{}.begin;
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic_shared));
  const SmallMPipeline shared{Pipeline(base, base + kBarrierBytes, Kernel::stage.bytes, params.stages),
                              base + kLandedBegin, Losses(reinterpret_cast<uint32_t*>(dynamic_shared + kLossesBegin))};
  const int rank = blockIdx.y;  // in the cluster
  const int warp = warp_index();
  const int m_begin = static_cast<int>(blockIdx.x) / params.tiles_n * Kernel::tile_m;
  const int n_begin = static_cast<int>(blockIdx.x) % params.tiles_n * kSmallMTileN;
  const int first_block = rank * params.blocks_per_split;
  const int blocks = max(0, min(params.blocks_per_split, params.blocks - first_block));
  SmallMProducer<Kernel> producer(params, shared, m_begin, n_begin);
  if (warp == Kernel::producer_warp) producer.start(first_block, blocks);
  if (warp == 0 && ptx::elect_one()) shared.pipeline.init_empty(Kernel::consumers / Kernel::parts);
  if (warp == 1 && ptx::elect_one()) shared.pipeline.init_full(1, params.stages, kFullArrivals);
  if (warp == 2 && ptx::elect_one()) shared.init_landed(1, params.stages);
  if (Kernel::may_lose) shared.losses.clear();
  __syncthreads();
  ptx::grid_dependency_launch();
  ptx::grid_dependency_wait();

  // Stages the sums of this CTA's k, perhaps in the pipeline's place. Returns, once the whole cluster has staged, what
  // was lost in the cluster. `loaded` blocks are under way already, `passed` went through the pipeline before.
  auto* staging = reinterpret_cast<float*>(dynamic_shared + kBarrierBytes +
                                           small_m_staging_begin(Kernel::tile_m, params.stages * Kernel::stage.bytes));
  const auto multiply = [&](auto decoded_as, int loaded, int passed) {
    constexpr DecodedAs kAs = decoded_as;
    typename Kernel::Sums sums;
    if (warp < Kernel::first_decoder) {
      if constexpr (kAs == DecodedAs::kE5M2) {
        Float8Consumer<Kernel>(shared, warp).multiply(blocks, sums);
      } else {
        const bool lost = Consumer<Kernel>(params, shared, n_begin, warp).multiply(first_block, blocks, passed, sums);
        if (Kernel::b == DType::kFloat8E4M3 && lost)
          shared.losses.template suspect<2>(Losses::kRowsOfB + Consumer<Kernel>::first_row(warp), 8);
      }
    } else if (warp < Kernel::producer_warp) {
      Decoder<Kernel>(params, shared, m_begin, n_begin).template decode<kAs>(first_block, blocks, passed);
    } else {
      producer.load_blocks(first_block + loaded, first_block + blocks);
    }
    __syncthreads();
    if (warp < Kernel::first_decoder) write_sums<Kernel>(staging, warp, sums);
    sync_cluster(params.splits);
    return Kernel::may_lose ? shared.losses.any(params.splits) : 0;
  };

  constexpr DecodedAs first = Kernel::format.is_mxfp4() ? DecodedAs::kE5M2 : DecodedAs::k16Bits;
  float factor = Kernel::format.is_mxfp4() ? kFloat8Factor : kMovedFactor<Kernel::scale> * kMovedFactor<Kernel::scale>;
  uint32_t lost = multiply(std::integral_constant<DecodedAs, first>(), 1, 0);
  if constexpr (first == DecodedAs::kE5M2) {
    if ((lost & Losses::kMaybe) != 0) {
      sync_cluster(params.splits);  // all have read what was noted: more comes
      find_extreme_factors<Kernel>(params, shared.losses, n_begin, first_block, blocks);
      sync_cluster(params.splits);
      lost = shared.losses.any(params.splits);
    }
    if ((lost & Losses::kCertain) != 0) {
      if (warp < Kernel::first_decoder) ptx::fence_proxy_async();  // the pipeline may take the staging's place again
      sync_cluster(params.splits);
      multiply(std::integral_constant<DecodedAs, DecodedAs::k16Bits>(), 0, blocks);
      factor = 1.0f;
    }
  } else if constexpr (Kernel::has_e4m3) {
    if (lost != 0) {
      add_lost_blocks<Kernel>(params, shared.losses, staging, m_begin, n_begin, first_block, blocks);
      sync_cluster(params.splits);
    }
  }
  if (warp < Kernel::first_decoder) {
    const bool may_be_nan = Kernel::has_e4m3 && lost != 0;
    store_share<Kernel>(params, shared.losses, staging, m_begin, n_begin, rank, warp, factor, may_be_nan);
  }
  if (params.splits > 1) {  // nobody leaves while another reads its staging
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
}

}  // namespace tileon::sm90
