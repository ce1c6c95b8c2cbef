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
#include "cuda/sm80/kernels/mma.cuh"
#include "cuda/sm80/kernels/panels.cuh"
#include "cuda/sm80/kernels/skinny.cuh"
#include "cuda/sm80/registry/registry.h"

namespace tileon::sm80 {

// The part of a problem that a kernel knows.
inline KernelProblem part_for(KernelFunction<KernelParams>, const Problem& problem) { return kernel_problem(problem); }
inline ScaledKernelProblem part_for(KernelFunction<BlockScaledParams>, const Problem& problem) {
  return scaled_kernel_problem(problem);
}

// `kKernel` is a __global__ function of TileParams alone, `Kernel` its types and sizes.
template <auto kKernel, typename Kernel>
void launch(const Problem& problem, cudaStream_t stream) {
  constexpr int64_t max_blocks = 0x7fffffff;  // of a grid's x dimension
  static std::atomic<uint64_t> done{0};       // a bit a device, for this kernel
  allow_shared_memory(reinterpret_cast<const void*>(kKernel), Kernel::shared_bytes, done);
  TileParams params{part_for(kKernel, problem), tile_order(Kernel::config, problem.m, problem.n), 0, 0,
                    takes_vector_stores(problem)};
  const int64_t tiles = params.order.count();
  if (tiles > max_blocks) throw std::runtime_error("tileon: the output has more than 2^31 tiles");
  params.tiles_per_batch = static_cast<int>(tiles);
  const int64_t batches_at_once = max_blocks / tiles;
  for (int64_t first = 0; first < problem.batch; first += batches_at_once) {
    params.first_batch = first;
    const int64_t blocks = std::min(batches_at_once, problem.batch - first) * tiles;
    launch_kernel("launching a portable kernel",
                  {.grid = dim3(static_cast<unsigned>(blocks)),
                   .threads = Kernel::config.threads(),
                   .stream = stream,
                   .shared_bytes = Kernel::shared_bytes,
                   .may_overlap = problem.device_flag.words != nullptr},  // such a kernel waits by itself
                  kKernel, params);
  }
}

template <Kind kKind, TileConfig kTile, Major kMajorA, Major kMajorB>
void launch_mma(const Problem& problem, cudaStream_t stream) {
  using Kernel = MmaKernel<kTile, DeviceType<info(kKind).a>, kMajorA, kMajorB, DeviceType<info(kKind).b>>;
  launch<&gemm_mma<Kernel>, Kernel>(problem, stream);
}

template <Kind kKind, TileConfig kTile>
void launch_majors(const Problem& problem, cudaStream_t stream) {
  if constexpr (is_float8(info(kKind).a)) {
    launch_mma<kKind, kTile, Major::kK, Major::kK>(problem, stream);
  } else {
    const Major a = operand_access(problem.a, problem, problem.m).major;
    const Major b = operand_access(problem.b, problem, problem.n).major;
    visit<Major::kK, Major::kMn>(a, [&](auto major_a) {
      visit<Major::kK, Major::kMn>(b, [&](auto major_b) {
        launch_mma<kKind, kTile, decltype(major_a)::value, decltype(major_b)::value>(problem, stream);
      });
    });
  }
}

// One instance serves all majors, since it reads operands through their strides, and all pairs of fp8 dtypes.
template <Kind kKind, TileConfig kTile>
void launch_gather(const Problem& problem, cudaStream_t stream) {
  constexpr DType dtype = info(kKind).a;
  using Stored = std::conditional_t<is_float8(dtype), AnyFloat8, DeviceType<dtype>>;
  using Kernel = MmaKernel<kTile, Stored, Major::kK, Major::kK, Stored>;
  launch<&gemm_mma<Kernel>, Kernel>(problem, stream);
}

template <TileConfig kTile, PanelAccess kAccessA, PanelAccess kAccessB>
void launch_panel(const Problem& problem, cudaStream_t stream) {
  using Kernel = std::conditional_t<kTile.family == Family::kSimt, SimtKernel<kTile, kAccessA, kAccessB>,
                                    DmmaKernel<kTile, kAccessA, kAccessB>>;
  launch<&gemm_panels<Kernel>, Kernel>(problem, stream);
}

template <TileConfig kTile>
void launch_panels(const Problem& problem, cudaStream_t stream) {
  constexpr auto along_k = PanelAccess::kVectorsAlongK, along_mn = PanelAccess::kVectorsAlongMn;
  constexpr auto elements = PanelAccess::kElements;
  const PanelAccess a = panel_access(problem.a, problem, problem.m);
  const PanelAccess b = panel_access(problem.b, problem, problem.n);
  if (a == elements || b == elements)  // rare enough to share one instance, which reads anything
    return launch_panel<kTile, elements, elements>(problem, stream);
  visit<along_k, along_mn>(a, [&](auto access_a) {
    visit<along_k, along_mn>(b, [&](auto access_b) {
      launch_panel<kTile, decltype(access_a)::value, decltype(access_b)::value>(problem, stream);
    });
  });
}

template <Kind kKind, int kConfig>
void launch_kind(const Problem& problem, cudaStream_t stream) {
  constexpr TileConfig kTile = kConfigsOf<kKind>[kConfig].tile;
  if constexpr (is_scaled(kKind)) {
    using Kernel = BlockScaledKernel<kTile, info(kKind).a, info(kKind).b, info(kKind).scale>;
    launch<&gemm_block_scaled<Kernel>, Kernel>(problem, stream);
  } else if constexpr (kTile.family == Family::kMma) {
    launch_majors<kKind, kTile>(problem, stream);
  } else if constexpr (kTile.family == Family::kMmaGather) {
    launch_gather<kKind, kTile>(problem, stream);
  } else if constexpr (kTile.family == Family::kSkinny) {
    using Kernel = SkinnyKernel<kTile>;
    launch<&skinny<Kernel>, Kernel>(problem, stream);
  } else {
    launch_panels<kTile>(problem, stream);
  }
}

template <Kind kKind>
bool launch_config(int config, const Problem& problem, cudaStream_t stream) {
  bool is_launched = false;
  visit_below<int, kConfigCountOf<kKind>>(config, [&](auto index) {
    if constexpr (kConfigsOf<kKind>[decltype(index)::value].kinds & bit(kKind)) {
      launch_kind<kKind, decltype(index)::value>(problem, stream);
      is_launched = true;
    }
  });
  return is_launched;
}

}  // namespace tileon::sm80
