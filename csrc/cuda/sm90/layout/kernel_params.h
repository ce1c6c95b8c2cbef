// What the host hands to a Hopper kernel.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "cuda/common/kernel_problem.h"
#include "cuda/common/tile_order.h"

namespace tileon::sm90 {

// How the producer reads an operand.
struct OperandMap {
  int8_t panels;  // of a tile, a box each; 0: all in one box, and the tensor counts panels as a dimension
  bool shared;    // one matrix for the whole batch
};

// What becomes of the sums that TMA stores, before they are rounded: the cheap formulas of epilogue/epilogue_ops.cuh,
// or any activation (epilogue/activated_store.cuh).
enum class EpilogueOp : int32_t { kNothing, kBiasAndRelu, kBiasAndLeakyRelu, kActivation };

struct KernelParams {
  CUtensorMap map_a;
  CUtensorMap map_b;
  CUtensorMap map_out;             // only where store_by_tma: boxes of 64 columns
  CUtensorMap map_out_tail;        // and of the tile's columns that are left
  CUtensorMap map_pre_activation;  // only where that is kept, laid out as the output
  CUtensorMap map_pre_activation_tail;

  // What the first load depends on, in one line of the constant cache: a launch finds it cold, and each line that has
  // to be fetched after another delays the load.
  alignas(64) FastTileOrder order;
  FastDivisor tiles_per_batch;
  uint16_t k_begin;
  uint16_t loaded_bytes;  // by a stage, as TMA counts them
  int blocks_per_split;   // of k; all splits together may reach past the end
  int last_m_begin;       // where the last tile along m begins, and along n (last_begin in heuristics/dense.h)
  int last_n_begin;
  OperandMap a;
  OperandMap b;

  int tiles;               // of all batches
  int k_blocks;            // at least one: where k is 0, it begins behind the end of the tensors, and comes as zeros
  int stages;              // of the pipeline: no more than a CTA fills
  int splits;              // CTAs of a cluster
  bool store_by_tma;       // 16-bit rows that TMA can write
  bool store_directly;     // float32 rows, from the registers (epilogue/direct_store.cuh)
  EpilogueOp epilogue_op;  // kNothing where the sums go through a slab (epilogue/staged_store.cuh)
  float slope;             // of kBiasAndLeakyRelu; 1 where the bias is all there is
  bool vector_stores;      // four neighbouring columns of the output can be stored at once, two where store_directly
  KernelProblem problem;
};
static_assert(offsetof(KernelParams, tiles) - offsetof(KernelParams, order) == 64);

}  // namespace tileon::sm90
