// Where a tile of the output lies, and where its batch.
#pragma once

#include "config.h"
#include "kernel_params.h"

namespace tileon::sm90 {

// Of tile `tile` in the order of tiles.
struct TilePosition {
  int batch;
  int m_begin;
  int n_begin;

  TilePosition() = default;
  __device__ __forceinline__ TilePosition(const KernelParams& params, const TileConfig& config, int tile) {
    batch = params.tiles_per_batch.divide(tile);
    const TileCoordinate at = params.order.at(tile - batch * params.tiles_per_batch.divisor());
    m_begin = at.m * config.tile_m;
    n_begin = at.n * config.tile_n;
  }
};

}  // namespace tileon::sm90
