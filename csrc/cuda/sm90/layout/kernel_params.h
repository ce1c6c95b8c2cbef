// What the host hands to a Hopper kernel, and the numbers of its barriers.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/common/tile_order.h"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/stream_k.h"

namespace tileon::sm90 {

// How the producer reads an operand.
struct OperandMap {
  int8_t panels;  // of a tile, a box each; 0: all in one box, and the tensor counts panels as a dimension
  bool shared;    // one matrix for the whole batch
};

// What becomes of the sums that TMA stores, before they are rounded: the cheap formulas of epilogue/ops.cuh,
// or any activation (ActivatedStore in epilogue/tma_store.cuh).
enum class EpilogueOp : int32_t { kNothing, kBiasAndRelu, kBiasAndLeakyRelu, kActivation };

struct KernelParams {
  CUtensorMap map_a;
  CUtensorMap map_b;
  CUtensorMap map_out;             // only where store_by_tma: boxes of 64 columns
  CUtensorMap map_out_tail;        // and a box of the tile's columns that are left
  CUtensorMap map_pre_activation;  // only where the activation's argument is kept
  CUtensorMap map_pre_activation_tail;

  // What the first load depends on, in one line of the constant cache: a launch finds it cold, and each line that has
  // to be fetched after another delays the load. Where a weight's scales lie (WeightParams) is not in it.
  alignas(64) FastTileOrder order;
  FastDivisor tiles_per_batch;
  uint16_t k_begin;
  uint16_t loaded_bytes;  // by a stage, as TMA counts them
  int blocks_per_split;   // of k; all splits together may reach past the end
  int last_m_begin;       // where the last tile along m begins, and along n (last_begin in heuristics/config.h)
  int last_n_begin;
  OperandMap a;
  OperandMap b;

  int tiles;               // of all batches
  int k_blocks;            // at least one: where k is 0, it begins behind the end of the tensors, and comes as zeros
  int stages;              // of the pipeline: no more than a CTA fills
  int splits;              // CTAs of a cluster
  bool store_by_tma;       // 16-bit rows that TMA can write
  bool store_by_copies;    // and those that it cannot
  bool store_directly;     // float32 rows, from the registers (epilogue/direct_store.cuh)
  EpilogueOp epilogue_op;  // kNothing where the sums are staged (epilogue/staged_store.cuh)
  float slope;             // of kBiasAndLeakyRelu; 1 where the bias is all there is
  bool vector_stores;      // four neighbouring columns of the output can be stored at once, two where store_directly
  KernelProblem problem;
};
static_assert(offsetof(KernelParams, tiles) - offsetof(KernelParams, order) == 64);

// Of kernels of 16 bits whose tiles CTAs share.
struct SharedParams : KernelParams {
  StreamK stream;
  StreamKMemory stream_memory;
};

// `problem` is that of the prepared operands (prepared_problem).
struct ScaledParams : KernelParams {
  const float* global_scale;  // one element, or null: 1
  // The first CTA writes here, a word for each of its consuming warps, whether any of the preparation's `words` is set;
  // the kernel behind this one reads them. Null where nobody asks.
  uint32_t* summary;
  const uint32_t* words;
  int word_count;
  const uint8_t* exponents_a;  // of narrow rows (prepare.h)
  const uint8_t* exponents_b;
};

// The float32 scales of an operand: a row's first one, and those behind it, a block of k each.
struct OperandFactors {
  const float* data;
  int64_t stride;  // from rows to rows that have a scale of their own: 2^log2_rows rows
  int64_t step;    // from block to block of k
  int log2_rows;

  TILEON_HOST_DEVICE constexpr const float* of_row(int row) const { return data + (row >> log2_rows) * stride; }
};

// Of kernels that multiply codes, and apply their float32 scales to the sums.
struct FactorParams : KernelParams {
  OperandFactors a, b;
  const float* global_scale;  // one element, or null: 1
};

// FactorParams of kernels whose tiles CTAs share, among them those that convert a weight's codes, the problem's b.
struct SharedFactorParams : FactorParams {
  StreamK stream;
  StreamKMemory stream_memory;
};

// Of kernels that convert a weight's codes, where the scales change along k.
struct WeightBlocksParams : SharedFactorParams {
  float4* aside;  // [cta][consumer][sums of a thread / 4][thread], for sums whose scales are far apart
};

// Of kernels that fold a weight's codes: what a block's are multiplied by, a byte (core/fold.h), a word for each 128 k
// of a row, [k / 128][factors_stride]. The float32 scales are those of both folds' rows.
struct FoldedWeightParams : SharedFactorParams {
  const uint32_t* factors;
  int64_t factors_stride;
  int stages_of_sums;  // after so many stages sums leave the tensor core

  // Of the rows from `n` on, for stage `stage` of k.
  TILEON_HOST_DEVICE const void* scale_words(int stage, int n) const { return factors + stage * factors_stride + n; }
};

// Of kernels that decode a weight, the problem's b.
struct WeightParams : KernelParams {
  const uint8_t* scale;         // packed, with blocks of columns one behind the other
  int64_t scale_row_block;      // from 128 rows to the next
  int log2_stages_of_block;     // stages of k that share a packed block, as a power of two: 0 or 1
  int columns;                  // scales of a row
  const float* global_scale;    // null: 1
  int64_t global_scale_stride;  // from row to row of a; 0: one element for all
  uint32_t* lost;               // where decoding may lose: a word for each consuming warp, not 0 where it did
  StreamK stream;
  StreamKMemory stream_memory;

  // The packed block with the scales of the 128 rows from `n` on, for stage `stage` of k. `n` is a multiple of 128.
  TILEON_HOST_DEVICE const void* scale_words(int stage, int n) const {
    return scale + n / kScaleBlockRows * scale_row_block + int64_t{stage >> log2_stages_of_block} * kScaleBlockBytes;
  }
};

// Of kernels that look which encoding the data have decided for.
struct EncodingParams {
  EncodingChoice choice;
  ScaledParams int8, bfloat16;
  ScaledParams float8;  // only where the choice allows it
};
static_assert(sizeof(EncodingParams) <= 4096, "a kernel's parameters");

// Of kernels for few rows of a block-scaled product (small_m/).
struct SmallMParams {
  CUtensorMap map_a;  // codes, as bytes; or elements of 16 bits
  CUtensorMap map_b;
  int tiles_n;
  int stages;             // of the pipeline
  int blocks;             // of k, a stage each
  int blocks_per_split;   // the last splits may have fewer, or none
  int splits;             // CTAs of a cluster
  bool scales_in_blocks;  // of all operands that have any: TMA copies them; else threads do
  bool scales_stages;     // float32 scales change with every stage, or, without k, there may be none
  bool vector_stores;     // four neighbouring columns of the output can be stored at once
  ScaledKernelProblem problem;
  int64_t global_scale_stride;  // from row to row of a; 0: one element for all
};

// And of those that read a weight straight into registers (small_m/direct.cuh).
struct DirectWeightParams {
  ScaledKernelProblem problem;
  int64_t global_scale_stride;  // from row to row of a; 0: one element for all
  int tiles_n;
  int chunks;  // of k
};

// Who uses which of a CTA's numbered barriers; 0 is __syncthreads.
constexpr int kAllConsumers = 1;                                                          // of cluster split-k
TILEON_HOST_DEVICE constexpr int consumer_barrier(int consumer) { return 2 + consumer; }  // a consumer's four warps
TILEON_HOST_DEVICE constexpr int main_loop_barrier(int consumer) {
  return 5 + consumer;
}  // whose turn it is in ping-pong
constexpr int kDecoders = 2;  // of small_m/

}  // namespace tileon::sm90
