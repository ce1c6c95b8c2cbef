// What is kept of a GPU is its own, whichever GPU is the current one: two unlike GPUs of a made-up runtime.
#include "cuda/runtime/runtime.h"

#include <stdexcept>

#include "expect.h"

namespace {

struct Device {
  int major, minor, sm_count, shared_bytes;
  int memory_khz, memory_bits, gb_a_second;  // the first two not known: 0
};

constexpr Device kDevices[] = {
    {8, 9, 128, 99 * 1024, 10501000, 384, 1008}, {8, 0, 108, 163 * 1024, 0, 5120, 0}, {7, 5, 68, 64 * 1024, 0, 0, 0}};
constexpr int kDeviceCount = 3;
int current_device = 0;
int images_asked = 0;

}  // namespace

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDeviceCount) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  const Device& asked = kDevices[device];
  if (which == cudaDevAttrMemoryClockRate && asked.memory_khz == 0) return cudaErrorInvalidDevice;
  *value = which == cudaDevAttrComputeCapabilityMajor   ? asked.major
           : which == cudaDevAttrComputeCapabilityMinor ? asked.minor
           : which == cudaDevAttrMultiProcessorCount    ? asked.sm_count
           : which == cudaDevAttrMemoryClockRate        ? asked.memory_khz
           : which == cudaDevAttrGlobalMemoryBusWidth   ? asked.memory_bits
                                                        : asked.shared_bytes;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorInvalidDevice"; }
const char* cudaGetErrorString(cudaError_t) { return "invalid device ordinal"; }

// For the current device.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  ++images_asked;
  attributes->ptxVersion = kDevices[current_device].major * 10 + kDevices[current_device].minor;
  return cudaSuccess;
}

static void kernel() {}

using namespace tileon;

int main() {
  for (int current = 0; current < kDeviceCount; ++current)
    for (int device = 0; device < 2; ++device) {
      current_device = current;
      const Gpu gpu = ask_gpu(device, kernel);
      const int capability = kDevices[device].major * 10 + kDevices[device].minor;
      expect(gpu.capability == capability, "the capability of the device that is asked about");
      expect(gpu.image == capability, "and the image that it runs, not the current device's");
      expect(gpu.sm_count == kDevices[device].sm_count, "and its SMs");
      expect(gpu.memory_gb_a_second == kDevices[device].gb_a_second, "and its memory's rate, where CUDA says it");
      expect(current_device == current, "the current device is the same afterwards");
    }
  images_asked = 0;
  expect(ask_gpu(2, kernel).image == 0 && images_asked == 0, "a GPU that has no kernels is not asked for its image");
  try {
    current_device = 0;
    const WhileCurrent nowhere(7);
    expect(false, "there is no such device");
  } catch (const std::runtime_error& error) {
    expect(std::string(error.what()).find("invalid device ordinal") != std::string::npos, "CUDA's words");
  }
  return report("ask gpu");
}
