// The one place that launches a Hopper kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace tileon::sm90 {

// A kernel, and on which devices it may have its shared memory already (a bit a device).
struct Kernel {
  const void* function = nullptr;
  std::atomic<uint64_t> allowed{0};
};

// The kernel may start while the one before it in the stream still runs: all of them wait for it before they touch
// memory. `params` is the kernel's one parameter. A column of the grid is a cluster.
void launch(Kernel& kernel, dim3 grid, int threads, int shared_bytes, void* params, cudaStream_t stream);

// Of a kernel without dynamic shared memory.
void launch(const void* function, dim3 grid, int threads, void* params, cudaStream_t stream);

}  // namespace tileon::sm90
