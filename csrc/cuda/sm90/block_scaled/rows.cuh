// The block-scaled rows' kernels, for one type of prepared operands and one of outputs.
#pragma once

#include "../gemm/kernel.cuh"
#include "config.h"
#include "rows.h"
#include "scaling.cuh"

namespace tileon::sm90 {

template <typename Element, typename Out, int... kTile>
const void* find_block_scaled(int dense_row, std::integer_sequence<int, kTile...>) {
  using Scaling = std::conditional_t<std::is_same_v<Element, Int8Pair>, RowScaling<Out>, GlobalScaling<Out>>;
  const void* found = nullptr;
  static_cast<void>(
      ((dense_row == kBlockScaledTiles[kTile] &&
        (found = reinterpret_cast<const void*>(
             &gemm<KernelTypes<kRows[kBlockScaledTiles[kTile]].tile, Element, Major::kK, Major::kK, Scaling>>),
         true)) ||
       ...));
  return found;
}

template <typename Element, typename Out>
const void* find_block_scaled(int dense_row) {
  return find_block_scaled<Element, Out>(dense_row, std::make_integer_sequence<int, kBlockScaledTileCount>());
}

}  // namespace tileon::sm90
