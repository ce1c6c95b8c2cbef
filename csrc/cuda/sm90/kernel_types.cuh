// The types and sizes of one kernel, from a row of the table, the operands' dtype and majors.
#pragma once

#include "config.h"
#include "operand_tile.h"
#include "shared_memory.cuh"

namespace tileon::sm90 {

template <TileConfig kConfig, typename Element_, Major kMajorA, Major kMajorB>
struct KernelTypes {
  using Element = Element_;
  static constexpr TileConfig config = kConfig;
  using TileA = OperandTile<kConfig.tile_m, kConfig.block_k, kMajorA>;
  using TileB = OperandTile<kConfig.tile_n, kConfig.block_k, kMajorB>;
  static constexpr int stage_bytes = TileA::bytes + TileB::bytes;
  static_assert(stage_bytes == sm90::stage_bytes(kConfig, kMajorA, kMajorB));

  // wgmma's operands: rows come from a, columns from b, or the other way round.
  static constexpr bool swapped = kConfig.swapped();
  using RowsTile = std::conditional_t<swapped, TileB, TileA>;
  using ColumnsTile = std::conditional_t<swapped, TileA, TileB>;
  static constexpr int rows_offset = swapped ? TileA::bytes : 0;  // in a stage
  static constexpr int columns_offset = swapped ? 0 : TileA::bytes;
  static constexpr int columns = kConfig.mma_columns();
  static constexpr int row_blocks = kConfig.consumer_rows() / 64;  // of one consumer
  static_assert(row_blocks * 64 == kConfig.consumer_rows());
  using Sums = float[row_blocks][columns / 2];

  static constexpr int producer_warp = kConfig.consumers * 4;
  static constexpr int consumers_of_a_stage = kConfig.family == Family::kPingPong ? 1 : kConfig.consumers;
  using Shared = SharedMemory<kConfig>;
};

}  // namespace tileon::sm90
