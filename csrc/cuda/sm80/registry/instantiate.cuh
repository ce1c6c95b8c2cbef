// From a config's number to its kernel, for problems of one kind: what the files in instances/ instantiate.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm80/heuristics/choice.h"
#include "cuda/sm80/kernels/block_scaled.cuh"
#include "cuda/sm80/kernels/direct.cuh"
#include "cuda/sm80/kernels/gather.cuh"
#include "cuda/sm80/kernels/mma.cuh"
#include "cuda/sm80/kernels/narrow.cuh"
#include "cuda/sm80/kernels/panels.cuh"
#include "cuda/sm80/kernels/skinny.cuh"
#include "cuda/sm80/kernels/widened.cuh"
#include "cuda/sm80/registry/registry.h"

namespace tileon::sm80 {

// The part of a problem that a kernel knows.
inline KernelProblem part_for(KernelFunction<KernelParams>, const Problem& problem) { return kernel_problem(problem); }
inline ScaledKernelProblem part_for(KernelFunction<BlockScaledParams>, const Problem& problem) {
  return scaled_kernel_problem(problem);
}

// Calls launch(first output, blocks) as often as it takes grids for so many outputs of so many tiles each.
template <typename Launch>
void for_each_grid(int64_t tiles, int64_t outputs, const Launch& launch) {
  constexpr int64_t max_blocks = 0x7fffffff;  // of a grid's x dimension
  if (tiles > max_blocks) throw std::runtime_error("tileon: the output has more than 2^31 tiles");
  const int64_t outputs_at_once = max_blocks / tiles;
  for (int64_t first = 0; first < outputs; first += outputs_at_once)
    launch(first, static_cast<unsigned>(std::min(outputs_at_once, outputs - first) * tiles));
}

// The CTAs of a grid for so many tiles: one each, but where few take all tiles of an output under a flag.
template <typename Kernel>
unsigned ctas_of(const Problem& problem, unsigned tiles, int64_t tiles_of_output) {
  unsigned most = tiles;
  if constexpr (requires { Kernel::most_flagged_ctas; }) {
    const bool may_leave = problem.device_flag.words != nullptr && tiles == tiles_of_output;
    if (may_leave && Kernel::most_flagged_ctas > 0) most = Kernel::most_flagged_ctas;
  }
  return std::min(tiles, most);
}

// `kKernel` is a __global__ function of TileParams alone, `Kernel` its types and sizes.
template <auto kKernel, typename Kernel>
void launch(const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  static std::atomic<uint64_t> done{0};  // a bit a device, for this kernel
  allow_shared_memory(reinterpret_cast<const void*>(kKernel), Kernel::shared_bytes, done);
  const TileOrder order = tile_order(Kernel::config, problem.m, problem.n);
  const int64_t tiles = order.count();
  TileParams params{part_for(kKernel, problem), FastTileOrder(order), {}, 0, takes_vector_stores(problem), slices,
                    FastDivisor(slices.count)};
  for_each_grid(tiles, problem.batch * slices.count, [&](int64_t first_out, unsigned blocks) {
    params.tiles_of_output = FastDivisor(static_cast<int>(tiles));
    params.first_out = first_out;
    launch_kernel("launching a portable kernel",
                  {.grid = dim3(ctas_of<Kernel>(problem, blocks, tiles)),
                   .threads = Kernel::config.threads(),
                   .stream = stream,
                   .shared_bytes = Kernel::shared_bytes,
                   .may_overlap = problem.device_flag.words != nullptr},  // such a kernel waits by itself
                  kKernel, params);
  });
}

// Of fp8, operands along k alone (why_not).
template <Kind kKind, TileConfig kTile>
void launch_mma(const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  using A = DeviceType<info(kKind).a>;
  using B = DeviceType<info(kKind).b>;
  visit<Major::kK, Major::kMn>(operand_access(problem.a, problem, problem.m).major, [&](auto a) {
    visit<Major::kK, Major::kMn>(operand_access(problem.b, problem, problem.n).major, [&](auto b) {
      if constexpr (!is_float8(info(kKind).a) || (a() == Major::kK && b() == Major::kK)) {
        using Kernel = MmaKernel<kTile, A, a(), b(), B>;
        launch<&gemm_mma<Kernel>, Kernel>(problem, slices, stream);
      }
    });
  });
}

// An element in global memory: one instance serves all pairs of fp8 dtypes.
template <Kind kKind>
using StoredOf = std::conditional_t<is_float8(info(kKind).a), AnyFloat8, DeviceType<info(kKind).a>>;

template <Kind kKind, TileConfig kTile>
void launch_gather(const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  visit<Major::kK, Major::kMn>(operand_access(problem.a, problem, problem.m).major, [&](auto a) {
    visit<Major::kK, Major::kMn>(operand_access(problem.b, problem, problem.n).major, [&](auto b) {
      using Kernel = GatherKernel<kTile, StoredOf<kKind>, a(), b()>;
      launch<&gemm_gather<Kernel>, Kernel>(problem, slices, stream);
    });
  });
}

template <TileConfig kTile>
void launch_widened(const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  visit<Major::kK, Major::kMn>(operand_access(problem.a, problem, problem.m, kCodeChunkBytes).major, [&](auto a) {
    visit<Major::kK, Major::kMn>(operand_access(problem.b, problem, problem.n, kCodeChunkBytes).major, [&](auto b) {
      using Kernel = WidenedKernel<kTile, a(), b()>;
      launch<&gemm_widened<Kernel>, Kernel>(problem, slices, stream);
    });
  });
}

template <Kind kKind>
using ProductsOf = std::conditional_t<
    kKind == Kind::kTf32, Tf32Products,
    std::conditional_t<kKind == Kind::kFloat32, FfmaProducts,
                       std::conditional_t<kKind == Kind::kFloat64, DmmaProducts, MmaProducts<StoredOf<kKind>>>>>;

// One instance serves both operands as the long one, and all pairs of fp8 dtypes.
template <DType kDType, TileConfig kTile>
void launch_narrow(const Problem& problem, cudaStream_t stream) {
  using Element = std::conditional_t<is_float8(kDType), AnyFloat8, DeviceType<kDType>>;
  const NarrowPlan plan = narrow_plan(problem, kTile.tile_m);
  const int64_t tiles_rows = (narrow_rows(problem) + plan.rows() - 1) / plan.rows();
  const int64_t tiles_columns = (narrow_columns(problem) + kTile.tile_m - 1) / kTile.tile_m;
  const int shared_bytes = narrow_shared_bytes(plan, std::is_same_v<Element, double> ? 8 : 4, kTile.tile_m);
  NarrowParams params{kernel_problem(problem), plan, narrow_steps(problem, plan, kTile.tile_m), {}, {}, 0};
  for_each_grid(tiles_rows * tiles_columns, problem.batch, [&](int64_t first_batch, unsigned blocks) {
    params.tiles_columns = FastDivisor(static_cast<int>(tiles_columns));
    params.tiles_per_batch = FastDivisor(static_cast<int>(tiles_rows * tiles_columns));
    params.first_batch = first_batch;
    const LaunchConfig config{.grid = dim3(blocks),
                              .threads = plan.threads(),
                              .stream = stream,
                              .shared_bytes = shared_bytes,
                              .may_overlap = problem.device_flag.words != nullptr};  // such a kernel waits by itself
    visit<true, false>(plan.along_k, [&](auto along_k) {
      launch_kernel("launching a portable kernel", config, &narrow<NarrowKernel<Element, kTile, along_k()>>, params);
    });
  });
}

template <TileConfig kTile>
void launch_panels(const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  using enum PanelAccess;
  const auto launch_as = [&](auto a, auto b) {
    using Kernel =
        std::conditional_t<kTile.family == Family::kSimt, SimtKernel<kTile, a(), b()>, DmmaKernel<kTile, a(), b()>>;
    launch<&gemm_panels<Kernel>, Kernel>(problem, slices, stream);
  };
  const PanelAccess access_a = panel_access(problem.a, problem, problem.m);
  const PanelAccess access_b = panel_access(problem.b, problem, problem.n);
  constexpr std::integral_constant<PanelAccess, kElements> elements;
  if (access_a == kElements || access_b == kElements)  // rare enough to share one instance, which reads anything
    return launch_as(elements, elements);
  visit<kVectorsAlongK, kVectorsAlongMn>(
      access_a, [&](auto a) { visit<kVectorsAlongK, kVectorsAlongMn>(access_b, [&](auto b) { launch_as(a, b); }); });
}

template <Kind kKind, int kConfig>
void launch_kind(const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  constexpr TileConfig kTile = kConfigsOf<kKind>[kConfig].tile;
  if constexpr (is_scaled(kKind)) {
    using Kernel = BlockScaledKernel<kTile, info(kKind).a, info(kKind).b, info(kKind).scale>;
    launch<&gemm_block_scaled<Kernel>, Kernel>(problem, slices, stream);
  } else if constexpr (kTile.family == Family::kMma) {
    launch_mma<kKind, kTile>(problem, slices, stream);
  } else if constexpr (kTile.family == Family::kMmaGather) {
    launch_gather<kKind, kTile>(problem, slices, stream);
  } else if constexpr (kTile.family == Family::kMmaWidened) {
    launch_widened<kTile>(problem, slices, stream);
  } else if constexpr (kTile.family == Family::kDirect) {
    using Kernel = DirectKernel<kTile, ProductsOf<kKind>>;
    launch<&gemm_direct<Kernel>, Kernel>(problem, slices, stream);
  } else if constexpr (kTile.family == Family::kSkinny) {
    using Kernel = SkinnyKernel<kTile>;
    launch<&skinny<Kernel>, Kernel>(problem, slices, stream);
  } else if constexpr (kTile.family == Family::kNarrow && kKind == Kind::kTf32) {
    launch_config<Kind::kFloat32>(kConfig, problem, slices, stream);
  } else if constexpr (kTile.family == Family::kNarrow) {
    launch_narrow<info(kKind).a, kTile>(problem, stream);
  } else {
    launch_panels<kTile>(problem, slices, stream);
  }
}

template <Kind kKind>
bool launch_config(int config, const Problem& problem, const KSlices& slices, cudaStream_t stream) {
  bool is_launched = false;
  visit_below<int, kConfigCountOf<kKind>>(config, [&](auto index) {
    if constexpr (kConfigsOf<kKind>[decltype(index)::value].kinds & bit(kKind)) {
      launch_kind<kKind, decltype(index)::value>(problem, slices, stream);
      is_launched = true;
    }
  });
  return is_launched;
}

extern template bool launch_config<Kind::kFloat32>(int, const Problem&, const KSlices&,
                                                   cudaStream_t);  // which tf32 calls

}  // namespace tileon::sm80
