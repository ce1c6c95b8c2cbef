// From a config's number to its kernel: what the kernels' parts are, and what the files in instances/ instantiate.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/epilogue/accumulator_scale.cuh"
#include "cuda/sm90/epilogue/block_scale.cuh"
#include "cuda/sm90/epilogue/direct_store.cuh"
#include "cuda/sm90/epilogue/factor_scale.cuh"
#include "cuda/sm90/epilogue/staged_store.cuh"
#include "cuda/sm90/epilogue/tma_store.cuh"
#include "cuda/sm90/epilogue/weight_scale.cuh"
#include "cuda/sm90/kernels/cluster_split_k.cuh"
#include "cuda/sm90/kernels/persistent.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/mainloop/codes_decoder.cuh"
#include "cuda/sm90/mainloop/fold_decoder.cuh"
#include "cuda/sm90/mainloop/fp4_decoder.cuh"
#include "cuda/sm90/mainloop/mma.cuh"
#include "cuda/sm90/mainloop/mma_bf16x6.cuh"
#include "cuda/sm90/mainloop/mma_tf32.cuh"
#include "cuda/sm90/mainloop/mxfp8_decoder.cuh"
#include "cuda/sm90/small_m/direct.cuh"
#include "cuda/sm90/small_m/kernel.cuh"

namespace tileon::sm90 {

// ---- the kernel of config kNumber, for each set of launch.h ----

template <int kNumber, DType kDType, Major kMajorA, Major kMajorB>
KernelFunction<KernelParams> kernel_function(DenseKernels<kDType, kMajorA, kMajorB>) {
  constexpr TileConfig tile = kDenseConfigs[kNumber].tile;
  using Element = DeviceType<kDType>;
  if constexpr (persistent(tile)) {
    return &gemm<Kernel<tile, Element, kMajorA, kMajorB, GroupedTiles, PlainMainLoop, Unscaled<Element>, TmaStore>>;
  } else {
    return &split_k<
        Kernel<tile, Element, kMajorA, kMajorB, GroupedTiles, PlainMainLoop, Unscaled<Element>, ClusterReduction>>;
  }
}

template <int kNumber, DType kDType, Major kMajorA, Major kMajorB>
KernelFunction<SharedParams> kernel_function(StreamedKernels<kDType, kMajorA, kMajorB>) {
  constexpr TileConfig tile = kStreamedConfigs[kNumber].tile;
  using Element = DeviceType<kDType>;
  return &gemm<
      Kernel<tile, Element, kMajorA, kMajorB, StreamedTiles, PlainMainLoop, UnscaledShared<Element>, TmaStore>>;
}

// The others read both operands along k.
template <TileConfig kTile, typename Element, template <typename> class MainLoop, typename AccumulatorScale,
          template <typename> class Store>
using KernelAlongK = Kernel<kTile, Element, Major::kK, Major::kK, GroupedTiles, MainLoop, AccumulatorScale, Store>;

template <int kNumber, DType kA, DType kB, DType kOut>
KernelFunction<KernelParams> kernel_function(Fp8Kernels<kA, kB, kOut>) {
  constexpr TileConfig tile = kFp8Configs[kNumber].tile;
  using Element = Float8<DeviceType<kA>, DeviceType<kB>>;
  using Scale = Unscaled<DeviceType<kOut>>;
  if constexpr (kFp8Configs[kNumber].operands == Operands::kFp8Promoted) {
    return &gemm<KernelAlongK<tile, Element, PromotedMainLoop, Scale, TmaStore>>;
  } else {
    return &gemm<KernelAlongK<tile, Element, PlainMainLoop, Scale, TmaStore>>;
  }
}

// These kernels store outputs of bfloat16 through TMA.
template <int kNumber>
KernelFunction<KernelParams> kernel_function(Bf16x6Kernels) {
  constexpr TileConfig tile = kBf16x6Configs[kNumber].tile;
  using Scale = Unscaled<__nv_bfloat16>;
  if constexpr (persistent(tile)) {
    return &gemm<KernelAlongK<tile, Bf16x3, Bf16x6MainLoop, Scale, DirectStore>>;
  } else {
    return &split_k<KernelAlongK<tile, Bf16x3, Bf16x6MainLoop, Scale, ClusterReduction>>;
  }
}

// As those of bfloat16. Where an operand is mn-major, its config has it for wgmma's rows.
template <int kNumber, Major kMajorA, Major kMajorB>
KernelFunction<KernelParams> kernel_function(Tf32Kernels<kMajorA, kMajorB>) {
  constexpr TileConfig tile = kTf32Configs[kNumber].tile;
  using Scale = Unscaled<__nv_bfloat16>;
  if constexpr (!takes_a(tile, kMajorA) || !takes_b(tile, kMajorB)) {
    return nullptr;
  } else if constexpr (kMajorA == Major::kK && kMajorB == Major::kK) {
    return &gemm<KernelAlongK<tile, Tf32, PlainMainLoop, Scale, DirectStore>>;
  } else {
    return &gemm<Kernel<tile, Tf32, kMajorA, kMajorB, GroupedTiles, MnMajorRowsMainLoop, Scale, DirectStore>>;
  }
}

template <int kNumber, Operands kOperands, DType kOut>
KernelFunction<typename BlockScaledKernels<kOperands, kOut>::Params> kernel_function(
    BlockScaledKernels<kOperands, kOut>) {
  if constexpr (kBlockScaledConfigs[kNumber].operands != kOperands || shares_tiles(kBlockScaledConfigs[kNumber])) {
    return nullptr;
  } else if constexpr (has_float32_scales(kOperands)) {
    constexpr TileConfig tile = kBlockScaledConfigs[kNumber].tile;
    using E4M3 = Float8<__nv_fp8_e4m3, __nv_fp8_e4m3>;
    using Factors = FactorScale<tile, DeviceType<kOut>>;
    if constexpr (kOperands == Operands::kFp8Blocks) {
      return &gemm<KernelAlongK<tile, E4M3, BlockScaledMainLoop, BlockScale<tile, DeviceType<kOut>>, TmaStore>>;
    } else if constexpr (kOperands == Operands::kFp8RowsPromoted) {
      return &gemm<KernelAlongK<tile, E4M3, PromotedMainLoop, Factors, TmaStore>>;
    } else {
      using Element = std::conditional_t<kOperands == Operands::kInt8Rows, int8_t, E4M3>;
      return &gemm<KernelAlongK<tile, Element, PlainMainLoop, Factors, TmaStore>>;
    }
  } else {
    using Out = DeviceType<kOut>;
    constexpr TileConfig bfloat16_tile = tile_of(kBlockScaledConfigs[kNumber], Encoding::kBFloat16);
    using BFloat16 = KernelAlongK<bfloat16_tile, __nv_bfloat16, PlainMainLoop, GlobalScale<Out>, TmaStore>;
    if constexpr (kOperands == Operands::kBFloat16) {
      return &gemm<BFloat16>;
    } else {
      constexpr TileConfig int8_tile = tile_of(kBlockScaledConfigs[kNumber], Encoding::kInt8);
      constexpr TileConfig float8_tile = tile_of(kBlockScaledConfigs[kNumber], Encoding::kE5M2);
      using E5M2 = Float8<__nv_fp8_e5m2, __nv_fp8_e5m2>;
      using Int8 = KernelAlongK<int8_tile, int8_t, PlainMainLoop, RowScale<Encoding::kInt8, int8_tile, Out>, TmaStore>;
      using Float8 =
          KernelAlongK<float8_tile, E5M2, PromotedMainLoop, RowScale<Encoding::kE5M2, float8_tile, Out>, TmaStore>;
      using Float8OrNone = std::conditional_t<kOperands == Operands::kE5M2, Float8, void>;
      return &gemm_by_encoding<Int8, BFloat16, Float8OrNone>;
    }
  }
}

// ---- whose tiles CTAs share ----

template <template <typename> class Scheduler, TileConfig kTile, typename Element, template <typename> class MainLoop,
          typename AccumulatorScale>
using SharingKernel = Kernel<kTile, Element, Major::kK, Major::kK, Scheduler, MainLoop, AccumulatorScale, TmaStore>;

template <int kNumber, template <typename> class Scheduler, DType kA, DType kCode, ScaleType kScale, DType kOut>
KernelFunction<WeightParams> sharing_kernel(WeightKernels<kA, kCode, kScale, kOut>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  using Element = DeviceType<kA>;
  using Scale = WeightScale<Element, kCode, kScale, config.tile, DeviceType<kOut>>;
  if constexpr (config.operands == Operands::kFp4Weight && kCode == kE2M1) {
    return &gemm<SharingKernel<Scheduler, config.tile, Element, Fp4WeightMainLoop, Scale>>;
  } else if constexpr (config.operands == Operands::kMxfp8Weight && kCode == kE4M3) {
    return &gemm<SharingKernel<Scheduler, config.tile, Element, Mxfp8WeightMainLoop, Scale>>;
  } else {
    return nullptr;
  }
}

template <int kNumber, template <typename> class Scheduler, DType kA, DType kB>
KernelFunction<SharedFactorParams> sharing_kernel(WeightCodesKernels<kA, kB>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == Operands::kWeightCodes) {
    using Element = DeviceType<kA>;
    return &gemm<SharingKernel<Scheduler, config.tile, Element, WeightCodesMainLoop, WeightRowScale<kB, Element>>>;
  } else {
    return nullptr;
  }
}

template <int kNumber, template <typename> class Scheduler, DType kA>
KernelFunction<WeightBlocksParams> sharing_kernel(WeightBlocksKernels<kA>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == Operands::kWeightBlocks) {
    using Element = DeviceType<kA>;
    using Scale = WeightBlockScale<config.tile, Element>;
    return &gemm<SharingKernel<Scheduler, config.tile, Element, WeightCodesMainLoop, Scale>>;
  } else {
    return nullptr;
  }
}

template <int kNumber, template <typename> class Scheduler, DType kOut>
KernelFunction<SharedFactorParams> sharing_kernel(SharedBlocksKernels<kOut>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == Operands::kFp8Blocks && shares_tiles(config)) {
    using E4M3 = Float8<__nv_fp8_e4m3, __nv_fp8_e4m3>;
    using Scale = BlockScale<config.tile, DeviceType<kOut>>;
    return &gemm<SharingKernel<Scheduler, config.tile, E4M3, BlockScaledMainLoop, Scale>>;
  } else {
    return nullptr;
  }
}

// The kernel for whole tiles and stream-K, and the one for clusters.
template <int kNumber, DType kA, DType kCode, ScaleType kScale, DType kOut>
KernelFunction<WeightParams> kernel_function(WeightKernels<kA, kCode, kScale, kOut> set) {
  return sharing_kernel<kNumber, StreamedTiles>(set);
}
template <int kNumber, DType kA, DType kB>
KernelFunction<SharedFactorParams> kernel_function(WeightCodesKernels<kA, kB> set) {
  return sharing_kernel<kNumber, StreamedTiles>(set);
}
template <int kNumber, DType kA>
KernelFunction<WeightBlocksParams> kernel_function(WeightBlocksKernels<kA> set) {
  return sharing_kernel<kNumber, StreamedTiles>(set);
}
template <int kNumber, DType kOut>
KernelFunction<SharedFactorParams> kernel_function(SharedBlocksKernels<kOut> set) {
  return sharing_kernel<kNumber, StreamedTiles>(set);
}
template <int kNumber, typename Set>
KernelFunction<typename Set::Params> kernel_function(Clustered<Set>) {
  if constexpr (has_clusters(kBlockScaledConfigs[kNumber])) {
    return sharing_kernel<kNumber, ClusteredTiles>(Set());
  } else {
    return nullptr;
  }
}

// Of folds there is no kernel for clusters.
template <int kNumber, DType kCode, DType kOut>
KernelFunction<FoldedWeightParams> kernel_function(FoldedWeightKernels<kCode, kOut>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == (kCode == kE2M1 ? Operands::kFoldedE2M1 : Operands::kFoldedE4M3)) {
    using Folds = Float8<__nv_fp8_e4m3, __nv_fp8_e4m3>;
    using Scale = FoldedWeightScale<kCode, config.tile, DeviceType<kOut>>;
    return &gemm<SharingKernel<StreamedTiles, config.tile, Folds, FoldedWeightMainLoop, Scale>>;
  } else {
    return nullptr;
  }
}

template <int kNumber, DType kA, DType kB, ScaleType kScale>
KernelFunction<SmallMParams> kernel_function(SmallMKernels<kA, kB, kScale>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == Operands::kCodes) {
    return &block_scaled_small_m<SmallMTypes<config.tile.tile_m, kA, kB, kScale>>;
  } else {
    return nullptr;
  }
}

template <int kNumber, DType kA, DType kB, ScaleType kScale>
KernelFunction<DirectWeightParams> kernel_function(DirectWeightKernels<kA, kB, kScale>) {
  constexpr KernelConfig config = kBlockScaledConfigs[kNumber];
  if constexpr (config.operands == Operands::kDirectWeight && has_direct_room(config.tile, kB)) {
    return &weight_direct<DirectWeightTypes<config.tile.tile_m, config.tile.tile_n, kA, kB, kScale>>;
  } else {
    return nullptr;
  }
}

template <typename Set>
KernelFunction<typename Set::Params> find_kernel(int config) {
  KernelFunction<typename Set::Params> found = nullptr;
  visit_below<int, Set::kConfigCount>(config, [&](auto number) { found = kernel_function<number()>(Set()); });
  return found;
}

}  // namespace tileon::sm90
