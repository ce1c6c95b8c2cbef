// Which tiles a CTA computes, how it starts, and its producer: one warp that fills the pipeline through TMA. All lanes
// of that warp walk along, one of them issues: elect.sync, where they meet, elects the same one every time.
#pragma once

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/traits.cuh"

namespace tileon::sm90 {

// Where a tile of the output begins.
struct TilePosition {
  int batch;
  int m_begin;
  int n_begin;
};

// The Scheduler of dense products: the tiles of all batches in grouped order (common/tile_order.h), of which a CTA
// takes every so many. The last tiles may overlap those before (last_begin in heuristics/config.h): both write the same
// there.
template <typename Kernel>
class GroupedTiles {
 public:
  // Tile `first`, and those `step` further on.
  __device__ __forceinline__ GroupedTiles(const KernelParams& params, int first, int step)
      : params_(params), tile_(first), step_(step) {}

  __device__ __forceinline__ bool has_tile() const { return tile_ < params_.tiles; }
  __device__ __forceinline__ void advance() { tile_ += step_; }
  __device__ __forceinline__ TilePosition position() const { return position_of(params_, tile_); }
  __device__ __forceinline__ TilePosition next_position() const { return position_of(params_, tile_ + step_); }

  static __device__ __forceinline__ TilePosition position_of(const KernelParams& params, int tile) {
    const int batch = params.tiles_per_batch.divide(tile);
    const TileCoordinate at = params.order.at(tile - batch * params.tiles_per_batch.divisor());
    return {batch, min(at.m * Kernel::config.tile_m, params.last_m_begin),
            min(at.n * Kernel::config.tile_n, params.last_n_begin)};
  }

 private:
  const KernelParams& params_;
  int tile_, step_;
};

// Starts loading one operand's tile that begins at `mn` and `k`.
template <typename Tile>
__device__ __forceinline__ void load_operand(const CUtensorMap& map, const OperandMap& operand, uint32_t shared,
                                             uint32_t barrier, int batch, int mn, int k) {
  const int inner = Tile::major == Major::kK ? k : mn;
  const int outer = Tile::major == Major::kK ? mn : k;
  const int matrix = operand.shared ? 0 : batch;
  if (Tile::panels > 1 && Tile::tiles_begin_at_panels && operand.panels == 0) {
    ptx::tma_load_4d(shared, map, barrier, 0, outer, inner / Tile::panel, matrix);
    return;
  }
#pragma unroll
  for (int panel = 0; panel < Tile::panels; ++panel) {
    if (panel > 0 && Tile::major == Major::kMn && panel >= operand.panels) break;
    ptx::tma_load_4d(shared + panel * Tile::panel_bytes, map, barrier, inner + panel * Tile::panel, outer, 0, matrix);
  }
}

template <typename Kernel>
class Producer {
 public:
  __device__ __forceinline__ Producer(const KernelParams& params, const Pipeline& pipeline)
      : params_(params), pipeline_(pipeline) {}

  // Loads the first block of the CTA's first tile. Nothing else has to be set up for it, so its latency runs while the
  // CTA sets itself up.
  __device__ __forceinline__ void start(const TilePosition& position, int first_block) {
    if (ptx::elect_one()) pipeline_.init_full(0, 1);
    __syncwarp();  // not for PTX: racecheck takes the thread that is elected next for another one
    move_to(position);
    ptx::grid_dependency_wait();
    fill_stage(first_block);
  }

  // The tile whose blocks are loaded from now on.
  __device__ __forceinline__ void move_to(const TilePosition& position) { position_ = position; }

  __device__ __forceinline__ void load_blocks(int begin, int end) {
#pragma unroll 1
    for (int block = begin; block < end; ++block) {
      pipeline_.wait_until_empty(at_);
      fill_stage(block);
    }
  }

 private:
  // The pipeline's next stage gets one block of k.
  __device__ __forceinline__ void fill_stage(int block) {
    if (ptx::elect_one()) {
      const uint32_t barrier = pipeline_.full(at_.stage);
      const uint32_t stage = pipeline_.data(at_.stage);
      const int k = params_.k_begin + block * Kernel::config.block_k;
      ptx::mbarrier_arrive_expect_tx(barrier, params_.loaded_bytes);
      load_operand<typename Kernel::TileA>(params_.map_a, params_.a, stage, barrier, position_.batch, position_.m_begin,
                                           k);
      load_operand<typename Kernel::TileB>(params_.map_b, params_.b, stage + Kernel::TileA::bytes, barrier,
                                           position_.batch, position_.n_begin, k);
    }
    at_.advance(pipeline_.stages());
  }

  const KernelParams& params_;
  const Pipeline& pipeline_;
  PipelineState at_;
  TilePosition position_;
};

// ---- how a CTA starts ----
//
// Its first load goes out as early as can be, and what else there is to set up is shared out over the warps and runs
// meanwhile. Most of a small product's time passes before its first data are there.

// This thread's warp, in a form that the compiler knows to be the same in all lanes: branches on it are uniform.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x / 32), 0); }

// Returns when the pipeline can be used. `start_producer` is called by the producer's warp: where its first load lies,
// no other warp shall wait to find out.
template <typename Kernel, typename StartProducer>
__device__ __forceinline__ void start(const KernelParams& params, const Pipeline& pipeline, int warp,
                                      const StartProducer& start_producer) {
  if (warp == Kernel::producer_warp) start_producer();
  if (warp == 0 && ptx::elect_one()) {
    ptx::prefetch_tensor_map(params.map_a);
    ptx::prefetch_tensor_map(params.map_b);
    pipeline.init_empty(Kernel::consumers_of_a_stage);
    if (params.store_by_tma) ptx::prefetch_tensor_map(params.map_out);
  }
  if (warp == 1 && ptx::elect_one()) pipeline.init_full(1, pipeline.stages());
  __syncthreads();
  ptx::grid_dependency_launch();
}

}  // namespace tileon::sm90
