// Where a tile of the output lies, and where its batch.
#pragma once

#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

struct TilePosition {
  int batch;
  int m_begin;
  int n_begin;
};

// Of tile `tile` in the order of tiles. The last ones may overlap those before (last_begin in heuristics/dense.h): both
// write the same there.
template <typename Kernel>
__device__ __forceinline__ TilePosition position_of(const KernelParams& params, int tile) {
  const int batch = params.tiles_per_batch.divide(tile);
  const TileCoordinate at = params.order.at(tile - batch * params.tiles_per_batch.divisor());
  return {batch, min(at.m * Kernel::config.tile_m, params.last_m_begin),
          min(at.n * Kernel::config.tile_n, params.last_n_begin)};
}

}  // namespace tileon::sm90
