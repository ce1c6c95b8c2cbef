// Where a tile of the output lies, and where its batch.
#pragma once

#include "config.h"
#include "kernel_params.h"

namespace tileon::sm90 {

struct TilePosition {
  int batch;
  int m_begin;
  int n_begin;
};

// Of tile `tile` in the order of tiles.
template <typename Kernel>
__device__ __forceinline__ TilePosition position_of(const KernelParams& params, int tile) {
  const int batch = params.tiles_per_batch.divide(tile);
  const TileCoordinate at = params.order.at(tile - batch * params.tiles_per_batch.divisor());
  return {batch, at.m * Kernel::config.tile_m, at.n * Kernel::config.tile_n};
}

}  // namespace tileon::sm90
