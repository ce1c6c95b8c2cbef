// The types and sizes of one kernel for few rows; its shared memory, which is a pipeline and what is noted of losses;
// and the producer, which fills the pipeline.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/pipeline.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/small_m/elements.cuh"

namespace tileon::sm90 {

// ---- losses ----

// Which rows of a CTA's tile lost something on their way to the elements that are multiplied: words in shared memory.
// The threads that decode note the rows that they share between them; what was lost is found out afterwards
// (lost_blocks.cuh), so that decoding costs no more for it.
class Losses {
  // The first word says what there is; then comes a bit for each row of a, and of b, that may have lost something, for
  // each that has a NaN, and for each that has blocks under tiny scales.
  static constexpr int kRowWordsA = kSmallMMaxTileM / 32;
  static constexpr int kRowWords = kRowWordsA + kSmallMTileN / 32;
  static constexpr int kSuspects = 1, kNaNs = kSuspects + kRowWords, kTinies = kNaNs + kRowWords;

 public:
  static constexpr int kWords = kTinies + kRowWords;
  static constexpr int kRowsOfB = kRowWordsA * 32;     // b's rows are numbered from here on
  static constexpr uint32_t kMaybe = 1, kCertain = 2;  // in the first word: something was lost

  __device__ __forceinline__ explicit Losses(uint32_t* words) : words_(words) {}

  // By the CTA's first threads, before a barrier.
  __device__ __forceinline__ void clear() const {
    if (threadIdx.x < kWords) words_[threadIdx.x] = 0;
  }

  __device__ __forceinline__ void note(uint32_t what) const { atomicOr(words_, what); }

  // Notes row `first` and those `step` on.
  template <int kRows>
  __device__ __forceinline__ void suspect(int first, int step) const {
    note(kMaybe);
#pragma unroll 1
    for (int i = 0; i < kRows; ++i) set(kSuspects, first + i * step);
  }
  __device__ __forceinline__ bool is_suspect(int row) const { return (word(kSuspects, row) & 1) != 0; }

  __device__ __forceinline__ void note_nan(int row) const { set(kNaNs, row); }
  __device__ __forceinline__ bool has_nan(int row) const { return (word(kNaNs, row) & 1) != 0; }
  __device__ __forceinline__ void note_tiny(int row) const { set(kTinies, row); }
  __device__ __forceinline__ bool has_tiny(int row) const { return (word(kTinies, row) & 1) != 0; }

  // In all parts of k, which the CTAs of the cluster share: the first word, and the NaNs of `row` and of those behind
  // it in its word, a bit each.
  __device__ __forceinline__ uint32_t any(int splits) const { return in_cluster(words_, splits); }
  __device__ __forceinline__ uint32_t nan_rows(int row, int splits) const {
    return in_cluster(words_ + kNaNs + row / 32, splits) >> row % 32;
  }

 private:
  __device__ __forceinline__ void set(int begin, int row) const { atomicOr(words_ + begin + row / 32, 1u << row % 32); }
  __device__ __forceinline__ uint32_t word(int begin, int row) const { return words_[begin + row / 32] >> row % 32; }

  static __device__ __forceinline__ uint32_t in_cluster(const uint32_t* word, int splits) {
    const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(word));
    uint32_t bits = 0;
    for (int split = 0; split < splits; ++split) bits |= ptx::load_cluster_4(ptx::map_to_cta(shared, split));
    return bits;
  }

  uint32_t* words_;
};

// ---- types, sizes and shared memory ----

template <int kTileM, DType kA, DType kB, ScaleType kScale>
struct SmallMTypes {
  static constexpr SmallMFormat format{kA, kB, kScale};
  static constexpr SmallMStage stage{format, kTileM};
  static constexpr DType a = kA, b = kB;
  static constexpr ScaleType scale = kScale;
  static constexpr int tile_m = kTileM;
  static constexpr int consumers = small_m_consumers(kTileM);
  static constexpr int parts = small_m_parts(kTileM);  // of a CTA's k: its consumers take stages in turn
  static constexpr int threads = small_m_threads(kTileM);
  static constexpr int first_decoder = consumers * 4;  // warps: consumers, decoders, the producer
  static constexpr int producer_warp = first_decoder + kDecoderWarps;
  using Element = ElementOf<kA, kB, kScale>;  // as multiplied
  using ChunkA = Chunk<kA, kB, kScale, format.chunk()>;
  using ChunkB = Chunk<kB, kA, kScale, format.chunk()>;
  static constexpr int steps = format.chunk() * kChunksPerGroup / kMmaK;  // of wgmma, in a group
  static constexpr bool has_e4m3 = kA == DType::kFloat8E4M3 || kB == DType::kFloat8E4M3;
  // Of e4m3 whose scales multiply the sums, NaN is all that bfloat16 loses, and float16 loses nothing.
  static constexpr bool loses_nan_alone =
      format.has_float32_scales() && std::is_same_v<Element, __nv_bfloat16> && has_e4m3;
  static constexpr bool loses_blocks = has_e4m3 && !format.has_float32_scales();
  static constexpr bool may_lose = loses_nan_alone || loses_blocks || format.is_mxfp4();  // something of some numbers
  using TileA = OperandTile<kTileM, format.stage_k(), Major::kK>;
  using TileA8 = OperandTile<kTileM, format.stage_k(), Major::kK, 1>;
  static_assert(TileA::bytes == (format.is_weight_only() ? stage.scales_b : stage.codes_a) - stage.elements_a);
  using Sums = float[kTileM / 2];
  // A consumer gives a stage back when it has begun the next one that is its own.
  static_assert(small_m_stages(format, kTileM) >= 2 * parts);
};

constexpr int kLandedBegin = Pipeline::kBarrierBytes;
constexpr int kLossesBegin = 512;
static_assert(kLandedBegin + kSmallMMaxStages * 8 <= kLossesBegin &&
              kLossesBegin + Losses::kWords * 4 <= kBarrierBytes);

// A stage goes from the producer to the decoders, which wait for a's codes and both operands' scales (`landed`), and
// from both to the consumers, which wait for b's codes and a's elements (`full`), and give it back (`empty`).
struct SmallMPipeline {
  Pipeline pipeline;
  uint32_t landed_barriers;
  Losses losses;

  __device__ __forceinline__ uint32_t landed(int stage) const { return landed_barriers + stage * 8; }

  // Of the stages from `begin` up to `end`, as Pipeline::init_full.
  __device__ __forceinline__ void init_landed(int begin, int end) const {
#pragma unroll 1
    for (int stage = begin; stage < end; ++stage) ptx::mbarrier_init(landed(stage), 1);
    ptx::fence_mbarrier_init();
  }
};

constexpr int kFullArrivals = 1 + kDecoderWarps * 32;  // the producer's, and every decoding thread's

// ---- the producer: one warp that fills the pipeline's stages with codes and scales through TMA ----

template <typename Kernel>
class SmallMProducer {
 public:
  __device__ __forceinline__ SmallMProducer(const SmallMParams& params, const SmallMPipeline& shared, int m_begin,
                                            int n_begin)
      : params_(params), shared_(shared), m_begin_(m_begin), n_begin_(n_begin) {}

  // Loads the first of `blocks` blocks, for which nothing else has to be set up: its latency runs while the CTA
  // gathers.
  __device__ __forceinline__ void start(int first_block, int blocks) {
    if (ptx::elect_one()) {
      shared_.pipeline.init_full(0, 1, kFullArrivals);
      shared_.init_landed(0, 1);
    }
    __syncwarp();  // not for PTX: racecheck takes the thread that is elected next for another one
    ptx::grid_dependency_wait();
    if (blocks > 0) fill_next_stage(first_block);
  }

  // All lanes walk along; elect.sync, where they meet, elects the same one every time.
  __device__ __forceinline__ void load_blocks(int begin, int end) {
#pragma unroll 1
    for (int block = begin; block < end; ++block) {
      shared_.pipeline.wait_until_empty(at_);
      fill_next_stage(block);
    }
  }

 private:
  __device__ __forceinline__ void fill_next_stage(int block) {
    if (ptx::elect_one()) fill_stage(block);
    at_.advance(shared_.pipeline.stages());
  }

  __device__ __forceinline__ void fill_stage(int block) const {
    const uint32_t stage = shared_.pipeline.data(at_.stage);
    const uint32_t full = shared_.pipeline.full(at_.stage), landed = shared_.landed(at_.stage);
    const int scale_bytes = bytes_of_scales(block);
    ptx::mbarrier_arrive_expect_tx(full, kSmallMTileN * kSmallMLineBytes);
    ptx::tma_load_4d(stage, params_.map_b, full, block * kSmallMLineBytes, n_begin_, 0, 0);
    constexpr int operands_with_scales = Kernel::format.is_weight_only() ? 1 : 2;
    const int landing = Kernel::tile_m * Kernel::format.line_bytes_a() + operands_with_scales * scale_bytes;
    ptx::mbarrier_arrive_expect_tx(landed, landing);
    load_scales(params_.problem.b, stage + Kernel::stage.scales_b, landed, n_begin_, block, scale_bytes);
    if constexpr (Kernel::format.is_weight_only()) {
      using TileA = typename Kernel::TileA;
#pragma unroll
      for (int i = 0; i < TileA::panels; ++i)
        ptx::tma_load_4d(stage + Kernel::stage.codes_a + i * TileA::panel_bytes, params_.map_a, landed,
                         (block * TileA::panels + i) * TileA::panel, m_begin_, 0, 0);
    } else {
      ptx::tma_load_4d(stage + Kernel::stage.codes_a, params_.map_a, landed, block * Kernel::format.line_bytes_a(),
                       m_begin_, 0, 0);
      load_scales(params_.problem.a, stage + Kernel::stage.scales_a, landed, m_begin_, block, scale_bytes);
    }
  }

  // Of a block of k of 128 rows, where TMA copies them.
  __device__ __forceinline__ int bytes_of_scales(int block) const {
    if (!params_.scales_in_blocks) return 0;
    constexpr int per_stage = Kernel::format.scale_blocks();
    const int all = static_cast<int>(scale_col_blocks(params_.problem.k / Kernel::format.vec()));
    return min(per_stage, all - block * per_stage) * kScaleBlockBytes;
  }

  // Starts copying `bytes` of the scales of those 128 rows that `row` is one of.
  static __device__ __forceinline__ void load_scales(const ScaledKernelOperand& operand, uint32_t shared,
                                                     uint32_t barrier, int row, int block, int bytes) {
    if (bytes == 0) return;
    const auto* scales = static_cast<const uint8_t*>(operand.scale) +
                         row / kScaleBlockRows * operand.scale_strides.row_block +
                         static_cast<int64_t>(block) * Kernel::format.scale_blocks() * kScaleBlockBytes;
    ptx::bulk_load(shared, scales, barrier, bytes);
  }

  const SmallMParams& params_;
  const SmallMPipeline& shared_;
  int m_begin_, n_begin_;
  PipelineState at_;
};

}  // namespace tileon::sm90
