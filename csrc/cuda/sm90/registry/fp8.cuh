// The fp8 rows' kernels, for one pairing of operands and one type of outputs.
#pragma once

#include <utility>

#include "cuda/sm90/heuristics/fp8.h"
#include "cuda/sm90/kernels/persistent.cuh"
#include "cuda/sm90/registry/fp8.h"

namespace tileon::sm90 {

template <typename A, typename B, typename Out, int kRow>
KernelFunction<KernelParams> float8_kernel() {
  using Element = Float8Pair<A, B, kFp8Configs[kRow].promoted>;
  return &gemm<KernelTypes<kFp8Configs[kRow].row.tile, Element, Major::kK, Major::kK, Unscaled<Out>>>;
}

template <typename A, typename B, typename Out, int... kRow>
KernelFunction<KernelParams> find_float8(int row, std::integer_sequence<int, kRow...>) {
  KernelFunction<KernelParams> found = nullptr;
  static_cast<void>(((row == kRow && (found = float8_kernel<A, B, Out, kRow>(), true)) || ...));
  return found;
}

template <typename A, typename B, typename Out>
KernelFunction<KernelParams> find_float8(int row) {
  return find_float8<A, B, Out>(row, std::make_integer_sequence<int, kFp8ConfigCount>());
}

}  // namespace tileon::sm90
