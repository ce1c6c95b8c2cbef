// The launch of kernels whose tiles CTAs share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// A number that no other launch has, and that memory holds by chance once in 2^64. A captured launch keeps its number,
// but leaves no word that holds it.
uint64_t next_launch();

// A config's kernels: for tiles of which the last ones may be shared, and, where has_clusters, for those that clusters
// share.
template <typename Params>
struct SharingKernels {
  KernelHandle<Params>& streamed;
  KernelHandle<Params>* clustered = nullptr;
};
template <typename Set>
SharingKernels<typename Set::Params> kernels_of(int config) {
  return {kernel_of<Set>(config), &kernel_of<Clustered<Set>>(config)};
}

// Launches the kernel for the way that share_tiles chose. `complete` makes a kernel's parameters of those that all
// kernels have. Returns the number of CTAs.
template <typename Params, typename Complete>
int launch_sharing(const SharingKernels<Params>& kernels, const KernelConfig& config, const Problem& problem,
                   const Gpu& gpu, void* scratch, cudaStream_t stream, const Complete& complete) {
  const auto [shared, ns, splits] = share_tiles(config, problem, gpu.sm_count);
  const int threads = config.tile.threads();
  if (shared.ctas > 0) {
    const LaunchPlan plan = plan_launch(config.operands, config.tile, 1, problem, gpu, shared.ctas);
    Params params = complete(plan.params);
    params.stream = shared;
    auto* ready = static_cast<uint8_t*>(scratch) + shared_sums_bytes(config, shared);
    params.stream_memory = {static_cast<float*>(scratch), reinterpret_cast<uint64_t*>(ready), next_launch()};
    if (launch_together(kernels.streamed, gpu, plan, threads, params, stream)) return plan.clusters * plan.cluster_ctas;
  }
  const LaunchPlan plan = plan_launch(config.operands, config.tile, splits, problem, gpu);
  Params params = complete(plan.params);
  params.stream = {plan.params.tiles, 0, plan.params.k_blocks};
  KernelHandle<Params>& kernel = splits > 1 ? *kernels.clustered : kernels.streamed;
  launch(kernel, gpu, plan.grid(), threads, plan.shared_bytes, params, stream);
  return plan.clusters * plan.cluster_ctas;
}

}  // namespace tileon::sm90
