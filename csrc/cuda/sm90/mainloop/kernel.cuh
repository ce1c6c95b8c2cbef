// The parts of every kernel that multiplies by this folder's main loops: the parts of its shared memory; the kernel as
// a type, made of a config, an element and the four types that do the work; the scheduler, which says what tiles a CTA
// computes; the producer, one warp that fills the pipeline through TMA; and a CTA's start. All lanes of the producer's
// warp walk along, and one of them issues: elect.sync, where the lanes meet, elects the same lane every time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/mainloop/shared_loads.cuh"

namespace tileon::sm90 {

constexpr int kExponentsBegin = 512;  // of epilogue/accumulator_scale.cuh, behind the barriers
constexpr int exponents_of_consumer(const TileConfig& tile) { return (tile.mma_columns() + 127) / 128 * 128; }
static_assert(Pipeline::kBarrierBytes <= kExponentsBegin);

constexpr int kReceivedBegin = Pipeline::kBarrierBytes;  // of kernels/cluster_tiles.cuh: a barrier for each warp

// Of all CTAs of the grid.
__device__ __forceinline__ int cta_number() { return static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x); }

// The parts of a kernel's shared memory; heuristics/config.h has their sizes.
template <TileConfig kConfig>
struct SharedMemory {
  unsigned char* base;
  uint32_t address;  // of base, in the shared window

  // `base` is the dynamic shared memory. Nothing is static, so it begins at a multiple of 1024 bytes, as swizzled tiles
  // want it.
  __device__ __forceinline__ explicit SharedMemory(unsigned char* dynamic)
      : base(dynamic), address(static_cast<uint32_t>(__cvta_generic_to_shared(dynamic))) {
    if (kWatchdog && address % 1024 != 0) ptx::fault();
  }

  using Place = ClusterPlace<kConfig.cluster_m, kConfig.cluster_n>;
  using StagePipeline = std::conditional_t<kConfig.cluster_ctas() == 1, Pipeline, ClusterPipeline<Place>>;
  __device__ __forceinline__ StagePipeline pipeline(int stage_bytes, int stages) const {
    return StagePipeline(address, address + pipeline_begin(kConfig), stage_bytes, stages);
  }
  __device__ __forceinline__ float* bias(int consumer) const {
    return reinterpret_cast<float*>(base + kBarrierBytes + consumer * kBiasBytes);
  }
  // A float32 for each of a tile's columns.
  __device__ __forceinline__ float* column_factors(int consumer) const {
    static_assert(kConfig.has_factors);
    return bias(kConfig.consumers + consumer);
  }
  // A byte for each of a tile's columns, in multiples of a warpgroup's threads.
  __device__ __forceinline__ uint8_t* column_exponents(int consumer) const {
    constexpr int bytes = exponents_of_consumer(kConfig);
    static_assert(kExponentsBegin + kConfig.consumers * bytes <= kBarrierBytes);
    return base + kExponentsBegin + consumer * bytes;
  }
  // Where warp `warp` of the consumers stores through.
  __device__ __forceinline__ unsigned char* warp_store(int warp) const {
    return base + staging_begin(kConfig) + warp * warp_store_bytes(kConfig);
  }
  // A CTA's sums, in the pipeline's place.
  __device__ __forceinline__ float* staging() const { return reinterpret_cast<float*>(base + pipeline_begin(kConfig)); }
};

// Sums that are stored as they are: `kCount` of each thread for a block of 64 rows, of which a store takes some columns
// at a time. Where results are not ordinary, the same in all of a warp's lanes, their columns are wrong, and those of
// exactly() are right: FactorResults (epilogue/factor_scale.cuh).
template <int kBlocks, int kCount>
struct PlainResults {
  const float (&sums)[kBlocks][kCount];

  template <int kBlock, int kBegin, int kColumns>
  __device__ __forceinline__ const float* columns() const {
    return &sums[kBlock][kBegin / 2];
  }
  // Of all columns of a block that a loop counts; unrolled, the block is a constant.
  __device__ __forceinline__ const float* columns_of(int block) const { return sums[block]; }
  __device__ __forceinline__ bool is_ordinary() const { return true; }
  __device__ __forceinline__ const PlainResults& exactly() const { return *this; }
};

// The AccumulatorScale of dense products, whose sums go to the epilogue as they are; epilogue/accumulator_scale.cuh has
// the other AccumulatorScales. `Out_` is the 16-bit output that TMA stores.
template <typename Out_>
struct Unscaled {
  using Out = Out_;
  using Params = KernelParams;
  static constexpr bool is_in_need_of_registers = false;  // beside the sums, until they are stored

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}
  __device__ __forceinline__ void read(const Params&, int, int) {}
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared&, int) const {}
  template <typename Shared, int kBlocks, int kCount>
  __device__ __forceinline__ PlainResults<kBlocks, kCount> results(const Params&, const Shared&, int,
                                                                   const float (&sums)[kBlocks][kCount]) const {
    return {sums};
  }
};

// The same, of products whose tiles CTAs share.
template <typename Out>
struct UnscaledShared : Unscaled<Out> {
  using Params = SharedParams;

  __device__ __forceinline__ void read(const Params&, int, int, int) {}
};

// b's tile in a stage.
template <TileConfig kConfig, Major kMajor, int kCodeBits>
struct TileOfB {
  struct Type : CodesTile<kCodeBits, kConfig.block_k> {
    static constexpr int bytes = codes_bytes(kCodeBits, kConfig.tile_n, kConfig.block_k);
  };
};
template <TileConfig kConfig, Major kMajor>
struct TileOfB<kConfig, kMajor, 0> {
  using Type = OperandTile<kConfig.tile_n, kConfig.block_k, kMajor, kConfig.element_bytes>;
};

// Scheduler   which tiles of the output a CTA computes, in which order    GroupedTiles, kernels/stream_k.cuh,
//                                                                         kernels/cluster_tiles.cuh
// MainLoop    a tile's sums out of the pipeline's stages                  mainloop/mma*.cuh
// AccumulatorScale  from those sums to the product                        Unscaled, epilogue/accumulator_scale.cuh
// Store       bias, activation, rounding, and the way to the output       epilogue/*_store.cuh
template <TileConfig kConfig, typename Element_, Major kMajorA, Major kMajorB, template <typename> class Scheduler_,
          template <typename> class MainLoop_, typename AccumulatorScale_, template <typename> class Store_>
struct Kernel {
  static_assert(!kConfig.takes_registers || kConfig.consumers == 2, "what kernels/persistent.cuh moves is for two");
  using Element = Element_;
  using Scheduler = Scheduler_<Kernel>;
  using MainLoop = MainLoop_<Kernel>;
  using AccumulatorScale = AccumulatorScale_;
  using Store = Store_<Kernel>;
  using Out = typename AccumulatorScale::Out;
  using Params = typename AccumulatorScale::Params;
  using Shared = SharedMemory<kConfig>;
  using Place = typename Shared::Place;  // of the CTA in its cluster
  using StagePipeline = typename Shared::StagePipeline;
  static constexpr TileConfig config = kConfig;
  static constexpr bool ping_pong = kConfig.family == Family::kPingpong;
  static_assert(!ping_pong || kConfig.consumers == 2, "two take turns");
  static constexpr int producer_warp = kConfig.consumers * 4;
  // Of a stage: how many say that it is full, the producer and the lanes that write scales there, and how many that it
  // has been read. Where consumers read scales in it, each of their warps does.
  static constexpr int producers_of_a_stage = 1 + 32 * kConfig.scale_warps();
  static constexpr int consumers_of_a_stage = ping_pong ? 1 : kConfig.consumers * (kConfig.has_stage_scales ? 4 : 1);

  using TileA = OperandTile<kConfig.tile_m, kConfig.block_k, kMajorA, kConfig.element_bytes>;
  using TileB = typename TileOfB<kConfig, kMajorB, kConfig.code_bits>::Type;
  static constexpr int stage_bytes = sm90::stage_bytes(kConfig, kMajorA, kMajorB);
  static constexpr int scale_words_offset = TileA::bytes + TileB::bytes;  // in a stage
  static constexpr int stage_scales_offset = scale_words_offset + scale_words_bytes(kConfig);
  static_assert(stage_scales_offset + stage_scales_bytes(kConfig) <= stage_bytes && stage_bytes <= 0xffff);
  static constexpr bool shares_operand = kConfig.cluster_ctas() > 1;
  static_assert(!shares_operand || persistent(kConfig));

  // wgmma's operands: rows come from a, columns from b, or the other way round.
  static constexpr bool swapped = kConfig.swapped();
  using RowsTile = std::conditional_t<swapped, TileB, TileA>;
  using ColumnsTile = std::conditional_t<swapped, TileA, TileB>;
  static constexpr int rows_offset = swapped ? TileA::bytes : 0;  // in a stage
  static constexpr int columns_offset = swapped ? 0 : TileA::bytes;
  static constexpr int columns = kConfig.mma_columns();
  static constexpr int row_blocks = kConfig.consumer_rows() / 64;  // of one consumer
  static_assert(row_blocks * 64 == kConfig.consumer_rows());
  using Sum = std::conditional_t<std::is_same_v<Element, int8_t>, int32_t, float>;
  using Sums = Sum[row_blocks][columns / 2];

  // Whether the first chunk's bias is read while the last products run. It takes registers beside the sums: in
  // ping-pong there are none left, and in other kernels an AccumulatorScale may need them.
  static constexpr bool reads_bias_early = !ping_pong && !AccumulatorScale::is_in_need_of_registers;

  template <typename OfSums>
  static constexpr bool is_unscaled =
      std::is_same_v<AccumulatorScale, Unscaled<OfSums>> || std::is_same_v<AccumulatorScale, UnscaledShared<OfSums>>;
  static constexpr bool dense_16_bit = is_unscaled<Element>;
  static constexpr bool of_float32 = std::is_same_v<Element, Bf16x3> || std::is_same_v<Element, Tf32>;
  // Gradients flow through these operands, and need the activation's argument.
  static constexpr bool keeps_pre_activation = dense_16_bit || of_float32;
  // For the rules of heuristics/config.h.
  static constexpr StoredSums stored_sums{of_float32, is_unscaled<Out>};
  // Columns that a lane stores at once: two hide half of a curved activation's latency, where there are registers for
  // them beside the sums.
  static constexpr bool has_spare_registers = kConfig.takes_registers || row_blocks * columns / 2 < 128;
  static constexpr int staged_columns_of_lane = keeps_pre_activation && has_spare_registers ? 2 : 1;
};

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
  static constexpr bool shares_tiles = false;

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
    constexpr TileConfig config = Kernel::config;
    TilePosition position{batch, min(at.m * (config.tile_m * config.cluster_m), params.last_m_begin),
                          min(at.n * (config.tile_n * config.cluster_n), params.last_n_begin)};
    if constexpr (config.cluster_m > 1) position.m_begin += Kernel::Place::m() * config.tile_m;
    if constexpr (config.cluster_n > 1) position.n_begin += Kernel::Place::n() * config.tile_n;
    return position;
  }

 protected:
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
  using StagePipeline = typename Kernel::StagePipeline;
  using Params = typename Kernel::Params;
  __device__ __forceinline__ Producer(const Params& params, const StagePipeline& pipeline)
      : params_(params), pipeline_(pipeline) {}

  // Loads the first block of the CTA's first tile. Nothing else has to be set up for it, unless the CTAs of a cluster
  // load for each other: so its latency runs while the CTA sets itself up.
  __device__ __forceinline__ void start(const TilePosition& position, int first_block) {
    if constexpr (!Kernel::shares_operand) {
      if (ptx::elect_one()) pipeline_.init_full(0, 1, Kernel::producers_of_a_stage);
      __syncwarp();  // not for PTX: racecheck takes the thread that is elected next for another one
    }
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
      using Place = typename Kernel::Place;
      if constexpr (Place::tiles_n > 1) {
        load_part<typename Kernel::TileA, Place::tiles_n>(params_.map_a, params_.a, stage, barrier, Place::n(),
                                                          Place::row(), position_.batch, position_.m_begin, k);
      } else {
        load_operand<typename Kernel::TileA>(params_.map_a, params_.a, stage, barrier, position_.batch,
                                             position_.m_begin, k);
      }
      if constexpr (Place::tiles_m > 1) {
        load_part<typename Kernel::TileB, Place::tiles_m>(params_.map_b, params_.b, stage + Kernel::TileA::bytes,
                                                          barrier, Place::m(), Place::column(), position_.batch,
                                                          position_.n_begin, k);
      } else if constexpr (constexpr int bits = Kernel::config.code_bits; bits > 0) {
        ptx::tma_load_4d(stage + Kernel::TileA::bytes, params_.map_b, barrier, k * bits / 8, position_.n_begin, 0, 0);
      } else {
        load_operand<typename Kernel::TileB>(params_.map_b, params_.b, stage + Kernel::TileA::bytes, barrier,
                                             position_.batch, position_.n_begin, k);
      }
      if constexpr (constexpr int bytes = scale_words_bytes(Kernel::config); bytes > 0) {
        const auto& params = static_cast<const Params&>(params_);
        ptx::bulk_load(stage + Kernel::scale_words_offset, params.scale_words(block, position_.n_begin), barrier,
                       bytes);
      }
    }
    at_.advance(pipeline_.stages());
  }

  const KernelParams& params_;
  const StagePipeline& pipeline_;
  PipelineState at_;
  TilePosition position_;
};

// ---- how a CTA starts ----
//
// A CTA's first load goes out as early as possible; meanwhile the warps share the rest of the setup. Most of a small
// product's time passes before its first data are there.

// Returns when the pipeline can be used. The producer's warp calls `start_producer`, which works out where the first
// load lies: no other warp waits for that.
template <typename Kernel, typename StartProducer>
__device__ __forceinline__ void start(const KernelParams& params, const typename Kernel::StagePipeline& pipeline,
                                      int warp, const StartProducer& start_producer) {
  if (!Kernel::shares_operand && warp == Kernel::producer_warp) start_producer();
  if (warp == 0 && ptx::elect_one()) {
    ptx::prefetch_tensor_map(params.map_a);
    ptx::prefetch_tensor_map(params.map_b);
    pipeline.init_empty(Kernel::consumers_of_a_stage);
    if (params.store_by_tma) ptx::prefetch_tensor_map(params.map_out);
  }
  if (warp == 1 && ptx::elect_one())
    pipeline.init_full(Kernel::shares_operand ? 0 : 1, pipeline.stages(), Kernel::producers_of_a_stage);
  if constexpr (Kernel::shares_operand) {
    ptx::cluster_arrive();
    ptx::cluster_wait();  // every CTA's barriers are there
    ptx::grid_dependency_launch();
    if (warp == Kernel::producer_warp) start_producer();
  } else {
    __syncthreads();
    ptx::grid_dependency_launch();
  }
}

}  // namespace tileon::sm90
