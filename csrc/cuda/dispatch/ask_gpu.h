// What CUDA says of a GPU. tests/host/test_ask_gpu.cpp compiles it against a runtime of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/runtime/error.h"
#include "cuda/runtime/gpu.h"

namespace tileon {

// Makes a device the current one while it is asked: an image of kernels is the current device's.
class WhileCurrent {
 public:
  explicit WhileCurrent(int device) {
    check_cuda(cudaGetDevice(&before_), "asking for the current device");
    check_cuda(cudaSetDevice(device), "making a device the current one");
  }
  ~WhileCurrent() { static_cast<void>(cudaSetDevice(before_)); }
  WhileCurrent(const WhileCurrent&) = delete;
  WhileCurrent& operator=(const WhileCurrent&) = delete;

 private:
  int before_ = 0;
};

// `image_capability` says what the current device's image of the portable kernels was compiled for.
inline Gpu ask_gpu(int device, int (*image_capability)()) {
  const auto attribute = [device](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, device), "asking for a device attribute");
    return value;
  };
  const int capability =
      attribute(cudaDevAttrComputeCapabilityMajor) * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
  const int shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  int image = 0;
  if (capability >= 80) {
    const WhileCurrent current(device);
    image = image_capability();
  }
  return {capability, attribute(cudaDevAttrMultiProcessorCount), std::min(shared_bytes, shared_limit(capability)),
          image};
}

}  // namespace tileon
