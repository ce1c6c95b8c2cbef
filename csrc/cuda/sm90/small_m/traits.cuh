// The types and sizes of one kernel for few rows, and its shared memory.
#pragma once

#include <cstdint>

#include "cuda/common/pipeline.cuh"
#include "cuda/sm90/heuristics/small_m.h"
#include "cuda/sm90/layout/operand_tile.h"
#include "cuda/sm90/small_m/elements.cuh"
#include "cuda/sm90/small_m/losses.cuh"

namespace tileon::sm90 {

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
  using Element = ElementOf<kScale>;  // as multiplied
  using ChunkA = Chunk<kA, kB, kScale, format.chunk()>;
  using ChunkB = Chunk<kB, kA, kScale, format.chunk()>;
  static constexpr int steps = format.chunk() * kChunksPerGroup / kMmaK;  // of wgmma, in a group
  static constexpr bool has_e4m3 = kA == DType::kFloat8E4M3 || kB == DType::kFloat8E4M3;
  static constexpr bool may_lose = has_e4m3 || format.is_mxfp4();  // something of some numbers
  using TileA = OperandTile<kTileM, format.stage_k(), Major::kK>;
  using TileA8 = OperandTile<kTileM, format.stage_k(), Major::kK, 1>;
  static_assert(TileA::bytes == stage.codes_a - stage.elements_a);
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

}  // namespace tileon::sm90
