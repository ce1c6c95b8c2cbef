// Where a call runs: the GPU, its properties and the current stream. What the ops' dispatch shares.
#pragma once

#include <cuda_runtime_api.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "checks/operands.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm80/sm80.h"
#include "tuning/tuned_configs.h"

namespace tileon {

// Asked for once a device: the queries cost more than a launch.
inline const Gpu& gpu_of(const char* op, int device) {
  static std::array<Gpu, kMaxDevices> gpus{};
  static std::array<std::atomic<bool>, kMaxDevices> known{};
  static std::mutex asking;
  if (device < 0 || device >= kMaxDevices) fail(op, ": device index ", device, " is beyond what this library counts");
  if (known[device].load(std::memory_order_acquire)) return gpus[device];
  const std::lock_guard lock(asking);
  if (!known[device].load(std::memory_order_relaxed)) {
    gpus[device] = ask_gpu(device, sm80::kKernelOfImage);
    known[device].store(true, std::memory_order_release);
  }
  return gpus[device];
}

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

// What every op's Device of CUDA tensors says to its entry points (entry/products.h): nothing stands in their way.
struct CudaDevice {
  static void require(const char*) {}
  static void require_config(const char*, int64_t) {}
};

}  // namespace tileon
