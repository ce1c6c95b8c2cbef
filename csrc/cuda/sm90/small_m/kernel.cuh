// Block-scaled products of few rows of a, bound by reading b and decoding it: nothing is prepared, and no memory is
// taken. One tile of the output a cluster, whose CTAs split k. With the consumers that multiply mxfp4 as e5m2; those of
// 16 bits: consumer.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/common/pipeline.cuh"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/small_m/consumer.cuh"
#include "cuda/sm90/small_m/decoder.cuh"
#include "cuda/sm90/small_m/elements.cuh"
#include "cuda/sm90/small_m/lost_blocks.cuh"
#include "cuda/sm90/small_m/pipeline.cuh"

namespace tileon::sm90 {

// ---- the consumers of e5m2 ----

// One warpgroup. It takes every Kernel::parts-th stage. A product of wgmma is one block of k: of a thread's two rows,
// eight apart, a word of codes each.
template <typename Kernel>
class Float8Consumer {
  using TileA = typename Kernel::TileA8;
  static constexpr int kBlocks = kGroupsPerStage * kChunksPerGroup;  // in a stage

 public:
  __device__ __forceinline__ Float8Consumer(const SmallMPipeline& shared, int warp)
      : pipeline_(shared.pipeline), part_(warp / 4 % Kernel::parts) {
    const int lane = threadIdx.x % 32;
    const int row = warp / 4 / Kernel::parts * 64 + warp % 4 * 16;
    // ldmatrix: the chunk of rows 0 to 7, of rows 8 to 15, and the next chunk of both
    codes_ = (row + lane % 16) * kSmallMLineBytes +
             swizzled_chunk<Swizzle::kChunkColumns, 8>(lane % 8, lane / 16) * kChunkBytes;
    factors_ = Kernel::stage.factors_b + (row + lane / 4) * kBlocks * 4;
  }

  // Sums this warpgroup's part of the CTA's blocks of k, for its 64 rows of b.
  __device__ __forceinline__ void multiply(int blocks, typename Kernel::Sums& sums) const {
    PipelineState at;
    at.advance_by(part_, pipeline_.stages());
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
#pragma unroll 1
    for (int block = part_; block < blocks; block += Kernel::parts) {
      pipeline_.wait_until_full(at);
      multiply_stage(pipeline_.data(at.stage), sums);
      if (threadIdx.x % 128 == 0) pipeline_.release(at.stage);
      at.advance_by(Kernel::parts, pipeline_.stages());
    }
  }

 private:
  // A block is decoded while the one before is multiplied. Two sets of products at a time would keep the tensor core
  // busier, but not ptxas from taking them one by one.
  __device__ __forceinline__ void multiply_stage(uint32_t stage, typename Kernel::Sums& sums) const {
    const uint64_t a = TileA::descriptor(stage + Kernel::stage.elements_a);
    float products[Kernel::tile_m / 2];
    uint32_t codes[4];
    float4 low, high;  // b's scales, of two rows in four blocks
#pragma unroll
    for (int block = 0; block <= kBlocks; ++block) {
      uint32_t fragments[4];
      if (block < kBlocks) {
        if (block % 2 == 0) ptx::ldmatrix_x4(codes, stage + (codes_ ^ (block * kChunkBytes)));
        move_e2m1_to_e5m2(codes[block % 2 * 2], fragments[0], fragments[2]);
        move_e2m1_to_e5m2(codes[block % 2 * 2 + 1], fragments[1], fragments[3]);
      }
      if (block > 0) {
        const int done = block - 1;
        if (done % 4 == 0) {
          low = ptx::load_shared_float4(stage + factors_ + done * 4);
          high = ptx::load_shared_float4(stage + factors_ + 8 * kBlocks * 4 + done * 4);
        }
        ptx::wgmma_wait<0>();
        add(products, component(low, done % 4), component(high, done % 4), sums);
      }
      if (block < kBlocks) {
        ptx::wgmma_fence();
        ptx::wgmma_m64k32_e5m2<Kernel::tile_m>(products, fragments, a + TileA::offset(0, block) / 16);
        ptx::wgmma_commit();
      }
    }
  }

  static __device__ __forceinline__ void add(const float (&products)[Kernel::tile_m / 2], float low, float high,
                                             typename Kernel::Sums& sums) {
#pragma unroll
    for (int i = 0; i < Kernel::tile_m / 2; ++i) sums[i] = fmaf(products[i], i % 4 < 2 ? low : high, sums[i]);
  }

  static __device__ __forceinline__ float component(const float4& values, int i) {
    return i == 0 ? values.x : i == 1 ? values.y : i == 2 ? values.z : values.w;
  }

  const Pipeline& pipeline_;
  int part_;          // of k
  uint32_t codes_;    // where this lane's row of the first matrices lies in a stage
  uint32_t factors_;  // and this thread's first row of b's scales
};

// ---- from the consumers' sums to the output: stagings of float32 in the shared memory of a cluster's CTAs, added up
// in a fixed order ----

// Writes one consumer's sums to the staging of its part of k, whose rows are a's.
template <typename Kernel>
__device__ __forceinline__ void write_sums(float* staging, int warp, const typename Kernel::Sums& sums) {
  const int consumer = warp / 4, part = consumer % Kernel::parts;
  const int column = consumer / Kernel::parts * 64 + warp % 4 * 16;
  write_fragments<true, kSmallMPitch, Kernel::tile_m>(staging + part * Kernel::tile_m * kSmallMPitch + column, sums);
}

// Four columns of a row, over all parts of k in all CTAs of the cluster.
template <typename Kernel>
__device__ __forceinline__ float4 add_parts(uint32_t staging, int row, int column, int splits) {
  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
  for (int split = 0; split < splits; ++split) {
#pragma unroll
    for (int part = 0; part < Kernel::parts; ++part) {
      const uint32_t at = staging + ((part * Kernel::tile_m + row) * kSmallMPitch + column) * 4;
      const float4 more = ptx::load_cluster_16(ptx::map_to_cta(at, split));
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
  }
  return sum;
}

// Four sums of a row where either operand's row has lost a NaN.
__device__ __forceinline__ float4 with_nans(const float4& sum, const Losses& losses, int row, int column, int splits) {
  const bool whole_row = (losses.nan_rows(row, splits) & 1) != 0;
  const uint32_t columns = losses.nan_rows(Losses::kRowsOfB + column, splits);
  const auto at = [&](float value, int j) {
    return whole_row || (columns >> j & 1) != 0 ? float_of(0x7fffffff) : value;
  };
  return {at(sum.x, 0), at(sum.y, 1), at(sum.z, 2), at(sum.w, 3)};
}

// The scales of four columns, of which some may not be there; 1 where stages have been scaled.
template <typename Kernel>
class ColumnScales {
 public:
  __device__ __forceinline__ ColumnScales(const SmallMParams& params, int column) {
    if constexpr (Kernel::format.has_float32_scales()) {
      const ScaledKernelProblem& problem = params.problem;
      const auto* scales = static_cast<const float*>(problem.b.scale);
      const auto of = [&](int i) {
        if (params.scales_stages) return 1.0f;
        return scales[problem.b.scale_strides.of_row(min(int64_t{column} + i, problem.n - 1))];
      };
      scales_ = {of(0), of(1), of(2), of(3)};
    }
  }

  __device__ __forceinline__ void multiply(float4& sums) const {
    if constexpr (Kernel::format.has_float32_scales())
      sums = {sums.x * scales_.x, sums.y * scales_.y, sums.z * scales_.z, sums.w * scales_.w};
  }

 private:
  float4 scales_;
};

// Stores this CTA's share of the tile: every splits-th row. By the consumers' warps. The sums lack `factor`.
template <typename Kernel>
__device__ __forceinline__ void store_share(const SmallMParams& params, const Losses& losses, float* staging,
                                            int m_begin, int n_begin, int rank, int warp, float factor,
                                            bool may_be_nan) {
  const ScaledKernelProblem& problem = params.problem;
  const int lane = threadIdx.x % 32, column = lane * kColumnsPerLane;
  const WarpStore<float, kSmallMTileN, ScaledKernelProblem> warp_store(problem, params.vector_stores, 0, n_begin, lane);
  const ColumnScales<Kernel> scales(params, n_begin + column);
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(staging));
  const int rows = static_cast<int>(min(static_cast<int64_t>(Kernel::tile_m), problem.m - m_begin));
#pragma unroll 1
  for (int row = rank + params.splits * warp; row < rows; row += params.splits * Kernel::consumers * 4) {
    float4 sum = add_parts<Kernel>(shared, row, column, params.splits);
    sum = {sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor};  // a power of two: exact
    scales.multiply(sum);
    if (may_be_nan) sum = with_nans(sum, losses, row, column, params.splits);
    const float* global_scales = problem.global_scale;
    const float global_scale =
        global_scales == nullptr ? 1.0f : global_scales[(m_begin + row) * params.global_scale_stride];
    float* sums = staging + row * kSmallMPitch;
    *reinterpret_cast<float4*>(sums + column) = {sum.x * global_scale, sum.y * global_scale, sum.z * global_scale,
                                                 sum.w * global_scale};
    __syncwarp();  // a lane may store what others wrote
    warp_store.template store<1, kSmallMPitch>(sums, m_begin + row, 1);
  }
}

// ---- the kernel ----

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
        const Consumer<Kernel> consumer(params, shared, n_begin, warp);
        typename Consumer<Kernel>::Lost lost;
        if constexpr (Kernel::format.has_float32_scales()) {
          lost = params.scales_stages ? consumer.multiply_blocks(first_block, blocks, sums)
                                      : consumer.multiply(first_block, blocks, passed, sums);
        } else {
          lost = consumer.multiply(first_block, blocks, passed, sums);
        }
        if constexpr (Kernel::loses_nan_alone) {
          if (lost != 0) note_nans(shared.losses, Consumer<Kernel>::first_row(warp), lost);
        } else {
          if (Kernel::b == DType::kFloat8E4M3 && lost)
            shared.losses.template suspect<2>(Losses::kRowsOfB + Consumer<Kernel>::first_row(warp), 8);
        }
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
  float factor =
      Kernel::format.is_mxfp4() ? kFloat8Factor : Kernel::ChunkA::kLackedFactor * Kernel::ChunkB::kLackedFactor;
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
  } else if constexpr (Kernel::loses_blocks) {
    if (lost != 0) {
      add_lost_blocks<Kernel>(params, shared.losses, staging, m_begin, n_begin, first_block, blocks);
      sync_cluster(params.splits);
    }
  }
  if (warp < Kernel::first_decoder) {
    const bool may_be_nan = (Kernel::loses_blocks || Kernel::loses_nan_alone) && lost != 0;
    store_share<Kernel>(params, shared.losses, staging, m_begin, n_begin, rank, warp, factor, may_be_nan);
  }
  if (params.splits > 1) {  // nobody leaves while another reads its staging
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
}

}  // namespace tileon::sm90
