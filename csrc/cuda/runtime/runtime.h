// The calls of CUDA's runtime that all kernels share: errors, what it says of a GPU, and the one place that launches a
// kernel. tests/host/test_ask_gpu.cpp compiles it against a runtime of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "cuda/common/kernel_choice.h"

namespace tileon {

// ---- CUDA's error codes as exceptions with a text for people ----

// `what` says what was tried, as in "launching sm80_mma_64x64x64".
inline void check_cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that is not sticky is not reported a second time elsewhere
  throw std::runtime_error(std::string("tileon: ") + what + ": " + cudaGetErrorName(code) + ": " +
                           cudaGetErrorString(code));
}

// ---- what CUDA says of a GPU ----

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

// 0 where CUDA does not say it.
inline int attribute_or_0(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) == cudaSuccess) return value;
  static_cast<void>(cudaGetLastError());
  return 0;
}

// `kernel` is one of the portable kernels, whose image says what all of them were compiled for.
inline Gpu ask_gpu(int device, void (*kernel)()) {
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
    cudaFuncAttributes attributes{};
    check_cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
               "asking which image a GPU runs");
    image = attributes.ptxVersion;  // of native code too
  }
  const int64_t bits = int64_t{2000} * attribute_or_0(cudaDevAttrMemoryClockRate, device) *  // of both edges of a kHz
                       attribute_or_0(cudaDevAttrGlobalMemoryBusWidth, device);
  return {
      capability, attribute(cudaDevAttrMultiProcessorCount), std::min(shared_bytes, shared_limit(capability)), image,
      device,     static_cast<int>(bits / 8'000'000'000)};
}

// ---- launches ----

template <typename... Params>
using KernelFunction = void (*)(Params...);  // a __global__ function

// How a kernel is launched, whatever its parameters.
struct LaunchConfig {
  dim3 grid;
  int threads;  // a CTA's
  cudaStream_t stream;
  int shared_bytes = 0;      // dynamic
  dim3 cluster = {1, 1, 1};  // CTAs
  bool may_overlap = false;  // the kernel waits by itself for the one before it in the stream, which may still run
};

// Lets `kernel` have `bytes` of dynamic shared memory on `device`, the current one. `done`, the kernel's own word, has
// a bit for each device where that was asked already.
inline void allow_shared_memory(const void* kernel, int bytes, int device, std::atomic<uint64_t>& done) {
  constexpr int max_devices = 64;
  const uint64_t bit = device >= 0 && device < max_devices ? uint64_t{1} << device : 0;
  if (done.load(std::memory_order_relaxed) & bit) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
             "asking for shared memory");
  done.fetch_or(bit, std::memory_order_relaxed);
}

// The same where the device's number is not known, which costs a call of CUDA's.
inline void allow_shared_memory(const void* kernel, int bytes, std::atomic<uint64_t>& done) {
  constexpr int without_asking = 48 * 1024;
  if (bytes <= without_asking) return;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  allow_shared_memory(kernel, bytes, device, done);
}

// As cudaLaunchKernelEx, which only nvcc knows.
template <typename... Params>
cudaError_t start_kernel(const cudaLaunchConfig_t& config, KernelFunction<Params...> kernel, const Params&... params) {
  void* arguments[] = {const_cast<void*>(static_cast<const void*>(&params))...};  // which CUDA copies
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);
}

template <typename... Params>
cudaError_t start_kernel(const LaunchConfig& launch, bool together, KernelFunction<Params...> kernel,
                         const Params&... params) {
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t config{};
  config.gridDim = launch.grid;
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = static_cast<size_t>(launch.shared_bytes);
  config.stream = launch.stream;
  config.attrs = attributes;
  if (const dim3 cluster = launch.cluster; cluster.x * cluster.y * cluster.z > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  if (launch.may_overlap) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (together) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  return start_kernel<Params...>(config, kernel, params...);
}

// `what` is what is being done: "launching ...".
template <typename... Params>
void launch_kernel(const char* what, const LaunchConfig& launch, KernelFunction<Params...> kernel,
                   const std::type_identity_t<Params>&... params) {
  check_cuda(start_kernel<Params...>(launch, false, kernel, params...), what);
}

// All CTAs are there at once. False, and nothing is launched, where they do not fit.
template <typename... Params>
bool launch_kernel_together(const char* what, const LaunchConfig& launch, KernelFunction<Params...> kernel,
                            const std::type_identity_t<Params>&... params) {
  const cudaError_t code = start_kernel<Params...>(launch, true, kernel, params...);
  if (code == cudaErrorCooperativeLaunchTooLarge) return static_cast<void>(cudaGetLastError()), false;
  check_cuda(code, what);
  return true;
}

}  // namespace tileon
