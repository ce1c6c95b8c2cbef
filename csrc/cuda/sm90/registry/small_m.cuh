// The kernels for few rows, for one pair of formats.
#pragma once

#include <utility>

#include "cuda/sm90/registry/small_m.h"
#include "cuda/sm90/small_m/kernel.cuh"

namespace tileon::sm90 {

template <ElementType kA, ElementType kB, ScaleType kScale, int... kTile>
KernelFunction<FewRowsParams> find_few_rows(int tile, std::integer_sequence<int, kTile...>) {
  KernelFunction<FewRowsParams> found = nullptr;
  static_cast<void>(
      ((tile == kTile && (found = &block_scaled_few_rows<FewRowsTypes<kFewRowsTiles[kTile], kA, kB, kScale>>, true)) ||
       ...));
  return found;
}

template <ElementType kA, ElementType kB, ScaleType kScale>
KernelFunction<FewRowsParams> find_few_rows(int tile) {
  return find_few_rows<kA, kB, kScale>(tile, std::make_integer_sequence<int, kFewRowsTileCount>());
}

}  // namespace tileon::sm90
