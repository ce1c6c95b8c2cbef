// The kernels of the persistent rows of the table, for one dtype and one pair of majors.
#pragma once

#include <utility>

#include "../rows.h"
#include "kernel.cuh"

namespace tileon::sm90 {

template <int kRow, typename Element, Major kMajorA, Major kMajorB>
const void* gemm_of_row() {
  constexpr TileConfig config = kRows[kRow].tile;
  if constexpr (persistent(config)) {
    return reinterpret_cast<const void*>(&gemm<KernelTypes<config, Element, kMajorA, kMajorB>>);
  } else {
    return nullptr;
  }
}

template <typename Element, Major kMajorA, Major kMajorB, int... kRow>
const void* find_among(std::integer_sequence<int, kRow...>, int row) {
  const void* found = nullptr;
  static_cast<void>(((row == kRow && (found = gemm_of_row<kRow, Element, kMajorA, kMajorB>(), true)) || ...));
  return found;
}

template <typename Element, Major kMajorA, Major kMajorB>
const void* find_gemm(int row) {
  return find_among<Element, kMajorA, kMajorB>(std::make_integer_sequence<int, kRowCount>(), row);
}

}  // namespace tileon::sm90
