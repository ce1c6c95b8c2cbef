// The kernels for few rows, for one pair of formats.
#pragma once

#include <utility>

#include "kernel.cuh"
#include "rows.h"

namespace tileon::sm90 {

template <ElementType kA, ElementType kB, ScaleType kScale, int... kTile>
const void* find_few_rows(int tile, std::integer_sequence<int, kTile...>) {
  const void* found = nullptr;
  static_cast<void>(((tile == kTile && (found = reinterpret_cast<const void*>(
                                            &block_scaled_few_rows<FewRowsTypes<kFewRowsTiles[kTile], kA, kB, kScale>>),
                                        true)) ||
                     ...));
  return found;
}

template <ElementType kA, ElementType kB, ScaleType kScale>
const void* find_few_rows(int tile) {
  return find_few_rows<kA, kB, kScale>(tile, std::make_integer_sequence<int, kFewRowsTileCount>());
}

}  // namespace tileon::sm90
