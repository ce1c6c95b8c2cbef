// The kernels for few rows, for one pair of formats.
#pragma once

#include <utility>

#include "cuda/sm90/registry/small_m.h"
#include "cuda/sm90/small_m/kernel.cuh"

namespace tileon::sm90 {

template <DType kA, DType kB, ScaleType kScale, int... kTile>
KernelFunction<SmallMParams> find_small_m(int tile, std::integer_sequence<int, kTile...>) {
  KernelFunction<SmallMParams> found = nullptr;
  static_cast<void>(
      ((tile == kTile && (found = &block_scaled_small_m<SmallMTypes<kSmallMTiles[kTile], kA, kB, kScale>>, true)) ||
       ...));
  return found;
}

template <DType kA, DType kB, ScaleType kScale>
KernelFunction<SmallMParams> find_small_m(int tile) {
  return find_small_m<kA, kB, kScale>(tile, std::make_integer_sequence<int, kSmallMTileCount>());
}

}  // namespace tileon::sm90
