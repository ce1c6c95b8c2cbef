// The kernels of the persistent rows of the table, for one dtype and one pair of majors.
#pragma once

#include "cuda/sm90/kernels/persistent.cuh"
#include "cuda/sm90/registry/dense.h"
#include "cuda/sm90/registry/find_config.h"

namespace tileon::sm90 {

template <typename Element, Major kMajorA, Major kMajorB>
KernelFunction<KernelParams> find_gemm(int row) {
  return find_config(row, [](auto number) -> KernelFunction<KernelParams> {
    constexpr TileConfig config = kRows[number].tile;
    if constexpr (persistent(config)) {
      return &gemm<KernelTypes<config, Element, kMajorA, kMajorB>>;
    } else {
      return nullptr;
    }
  });
}

}  // namespace tileon::sm90
