// Where a call runs: the GPU, its properties, the current stream, and what is copied first. What the ops' dispatch
// shares.
#pragma once

#include <cuda_runtime_api.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "../checks.h"
#include "../tuned_rows.h"
#include "error.h"
#include "gpu.h"
#include "sm80/sm80.h"

namespace tileon {

// Asked for once a device: the queries cost more than a launch.
inline const Gpu& gpu_of(const char* op, int device) {
  static std::array<Gpu, kMaxDevices> gpus;
  static std::array<std::once_flag, kMaxDevices> asked;
  if (device < 0 || device >= kMaxDevices) fail(op, ": device index ", device, " is beyond what this library counts");
  std::call_once(asked[device], [device] {
    const auto attribute = [device](cudaDeviceAttr which) {
      int value = 0;
      check_cuda(cudaDeviceGetAttribute(&value, which, device), "asking for a device attribute");
      return value;
    };
    const int capability =
        attribute(cudaDevAttrComputeCapabilityMajor) * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
    const int shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    gpus[device] = {capability, attribute(cudaDevAttrMultiProcessorCount),
                    std::min(shared_bytes, shared_limit(capability)), capability >= 80 ? sm80::image_capability() : 0};
  });
  return gpus[device];
}

// Whether the library may choose Hopper's own kernels: TILEON_HOPPER=0 (read once) leaves the portable ones.
inline bool may_choose_hopper() {
  static const bool may = [] {
    const char* setting = std::getenv("TILEON_HOPPER");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return may;
}

// Operands that were copied before the kernel reads them. Torch's allocator keeps them alive for it, in stream order.
struct Copies {
  std::optional<Tensor> a, b;
};

// Makes the tensors' device the current one, and puts the old one back. Torch's guard costs a call into torch, so it
// is taken only where it changes anything.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    int current = -1;
    check_cuda(cudaGetDevice(&current), "asking for the current device");
    if (current != device) guard_.emplace(device);
  }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
};

inline cudaStream_t current_stream(const char* op, int device) {
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream(device, &stream) != 0) fail(op, ": torch gave no current stream");
  return static_cast<cudaStream_t>(stream);
}

}  // namespace tileon
