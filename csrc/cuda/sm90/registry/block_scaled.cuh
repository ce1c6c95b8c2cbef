// The block-scaled rows' kernels, for one route and one type of outputs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <type_traits>
#include <utility>

#include "cuda/sm90/epilogue/accumulator_scale.cuh"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/kernels/by_encoding.cuh"
#include "cuda/sm90/kernels/persistent.cuh"
#include "cuda/sm90/registry/block_scaled.h"

namespace tileon::sm90 {

template <TileConfig kTile, typename Element, typename AccumulatorScale>
using PreparedTypes = KernelTypes<kTile, Element, Major::kK, Major::kK, AccumulatorScale>;

template <Route kRoute, typename Out, int kRow>
KernelFunction<ParamsOf<kRoute>> block_scaled_kernel() {
  if constexpr (kBlockScaledConfigs[kRow].route != kRoute) {
    return nullptr;
  } else {
    constexpr TileConfig bfloat16_tile = dense_row_of(kBlockScaledConfigs[kRow], Encoding::kBFloat16).tile;
    using BFloat16 = PreparedTypes<bfloat16_tile, __nv_bfloat16, GlobalScale<Out>>;
    if constexpr (kRoute == Route::kBFloat16) {
      return &gemm<BFloat16>;
    } else {
      constexpr TileConfig int8_tile = dense_row_of(kBlockScaledConfigs[kRow], Encoding::kInt8).tile;
      constexpr TileConfig float8_tile = dense_row_of(kBlockScaledConfigs[kRow], Encoding::kFloat8).tile;
      using E5M2Pair = Float8Pair<__nv_fp8_e5m2, __nv_fp8_e5m2, true>;
      using Int8 = PreparedTypes<int8_tile, Int8Pair, RowScale<Encoding::kInt8, int8_tile, Out>>;
      using Float8 = PreparedTypes<float8_tile, E5M2Pair, RowScale<Encoding::kFloat8, float8_tile, Out>>;
      using FastForm = std::conditional_t<kRoute == Route::kFloat8, Float8, void>;
      return &gemm_by_encoding<Int8, BFloat16, FastForm>;
    }
  }
}

template <Route kRoute, typename Out, int... kRow>
KernelFunction<ParamsOf<kRoute>> find_block_scaled(int row, std::integer_sequence<int, kRow...>) {
  KernelFunction<ParamsOf<kRoute>> found = nullptr;
  static_cast<void>(((row == kRow && (found = block_scaled_kernel<kRoute, Out, kRow>(), true)) || ...));
  return found;
}

template <Route kRoute, typename Out>
KernelFunction<ParamsOf<kRoute>> find_block_scaled(int row) {
  return find_block_scaled<kRoute, Out>(row, std::make_integer_sequence<int, kBlockScaledConfigCount>());
}

}  // namespace tileon::sm90
