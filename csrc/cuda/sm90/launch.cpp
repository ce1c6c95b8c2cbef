#include "launch.h"

#include <cstdlib>
#include <cstring>

#include "../error.h"
#include "../shared_memory_attribute.h"
#include "config.h"

namespace tileon::sm90 {
namespace {

bool use_dependent_launch() {
  static const bool use = [] {
    const char* setting = std::getenv("TILEON_PDL");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return use;
}

void launch_clusters(const void* function, dim3 grid, int threads, int shared_bytes, void* params,
                     cudaStream_t stream) {
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (grid.y > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {1, grid.y, 1};
  }
  if (use_dependent_launch()) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  void* arguments[] = {params};
  check_cuda(cudaLaunchKernelExC(&config, function, arguments), "launching a Hopper kernel");
}

}  // namespace

void launch(Kernel& kernel, dim3 grid, int threads, int shared_bytes, void* params, cudaStream_t stream) {
  allow_shared_memory(kernel.function, kSmemLimit, kernel.allowed);
  launch_clusters(kernel.function, grid, threads, shared_bytes, params, stream);
}

void launch(const void* function, dim3 grid, int threads, void* params, cudaStream_t stream) {
  launch_clusters(function, grid, threads, 0, params, stream);
}

}  // namespace tileon::sm90
