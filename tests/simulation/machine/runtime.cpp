// The functions of CUDA's runtime and driver that csrc calls.
#include "runtime.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "state.h"

namespace tileon::simulation {

namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
struct Device {
  const char* name;
  int capability, sms, lent_sms, shared_bytes;
};
// A slice is what MIG makes of an H200; a context lends a part of the SMs that the device says it has ("green").
constexpr Device kDevices[] = {{"h200", 90, 132, 132, 227 * 1024},
                               {"h200_slice", 90, 16, 16, 227 * 1024},
                               {"h200_context", 90, 132, 16, 227 * 1024},
                               {"a100", 80, 108, 108, 163 * 1024}};
constexpr int kSharedWithoutAsking = 48 * 1024;

const Device* chosen = nullptr;
const Device& device() {
  if (chosen == nullptr) {
    const char* wanted = std::getenv("TILEON_SIMULATED_GPU");
    if (wanted == nullptr || !choose_device(wanted)) chosen = &kDevices[0];
  }
  return *chosen;
}

std::map<const void*, int> allowed_shared_bytes;
cudaError_t last_error = cudaSuccess;
cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
bool runs_at_once = true;

cudaError_t failed(cudaError_t error) { return last_error = error; }

// CUDA Driver API, "Tensor Map Object Management".
// Whether this thread has a current context, which functions of the driver want: those of the runtime bind one.
thread_local bool has_context = false;

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dimensions, void* data,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (!has_context) return CUDA_ERROR_INVALID_CONTEXT;
  TensorMap out{};
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      out.element_bytes = 1;
      break;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      out.element_bytes = 2;
      break;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
      out.element_bytes = 4;
      out.rounds_to_tf32 = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  constexpr uint32_t spans[] = {256 * 4, 32, 64, 128};  // bytes that a row of a box may have, by swizzle
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
      swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    return CUDA_ERROR_NOT_SUPPORTED;
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || dimensions < 1 || dimensions > 5 || data == nullptr ||
      address % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < dimensions; ++i) {
    if (sizes[i] < 1 || sizes[i] > uint64_t{1} << 32 || box[i] < 1 || box[i] > 256 || element_strides[i] != 1)
      return CUDA_ERROR_INVALID_VALUE;
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= uint64_t{1} << 40)) return CUDA_ERROR_INVALID_VALUE;
    out.sizes[i] = sizes[i];
    out.strides[i] = i == 0 ? 0 : strides[i - 1];
    out.box[i] = static_cast<uint16_t>(box[i]);
  }
  const uint32_t row = box[0] * out.element_bytes;
  if (row % 16 != 0 || row > spans[swizzle]) return CUDA_ERROR_INVALID_VALUE;
  out.data = static_cast<unsigned char*>(data);
  out.dimensions = static_cast<uint8_t>(dimensions);
  out.swizzle_bits = static_cast<uint8_t>(swizzle);
  out.magic = kTensorMapMagic;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &out, sizeof out);
  return CUDA_SUCCESS;
}

}  // namespace

bool choose_device(const std::string& name) {
  for (const Device& one : kDevices) {
    if (name != one.name) continue;
    chosen = &one;
    return true;
  }
  return false;
}

void keep_launches(bool on) { runs_at_once = !on; }

void begin_run(const Schedule& wanted) {
  schedule = wanted;
  seed_random_numbers(wanted.seed * 0x2545f4914f6cdd1du + 1);
  clear_fault();
  last_error = cudaSuccess;
}

bool synchronize() {
  if (!grids.empty()) clear_fault();
  run_all_grids();
  if (last_fault().empty()) return true;
  last_error = cudaErrorLaunchFailure;
  return false;
}

cudaError_t check_and_enqueue(const cudaLaunchConfig_t& config, Call* call) {
  const auto allowed = allowed_shared_bytes.find(call->kernel);
  const int asked = allowed == allowed_shared_bytes.end() ? kSharedWithoutAsking : allowed->second;
  const int limit = std::min(asked, device().shared_bytes);
  if (config.dynamicSmemBytes > static_cast<size_t>(limit)) {
    delete call;
    return failed(cudaErrorInvalidValue);
  }
  has_context = true;
  const bool together = std::any_of(config.attrs, config.attrs + config.numAttrs, [](const cudaLaunchAttribute& one) {
    return one.id == cudaLaunchAttributeCooperative && one.val.cooperative != 0;
  });
  const dim3& grid = config.gridDim;
  if (together && uint64_t{grid.x} * grid.y * grid.z > static_cast<uint64_t>(device().lent_sms)) {
    delete call;
    return failed(cudaErrorCooperativeLaunchTooLarge);
  }
  const cudaError_t error = enqueue(config, call);
  if (error != cudaSuccess) return failed(error);
  if (runs_at_once && !synchronize()) return last_error;
  return cudaSuccess;
}

}  // namespace tileon::simulation

using namespace tileon::simulation;

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = std::string(name) == "cuTensorMapEncodeTiled";
  *function = known ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  if (number != 0) return failed(cudaErrorInvalidDevice);
  has_context = true;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  if (number != 0) return failed(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = device().capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device().capability % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = device().sms;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = device().shared_bytes;
      return cudaSuccess;
    default:
      return failed(cudaErrorInvalidValue);
  }
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->binaryVersion = attributes->ptxVersion = device().capability;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value > device().shared_bytes)
    return failed(cudaErrorInvalidValue);
  allowed_shared_bytes[kernel] = value;
  has_context = true;
  return cudaSuccess;
}

// Without its types a kernel's parameters cannot be copied.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return failed(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "unrecognized error code";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? last_fault().c_str() : cudaGetErrorName(error);
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t) {
  if (!synchronize()) return last_error;
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return synchronize() ? cudaSuccess : last_error; }
cudaError_t cudaDeviceSynchronize() { return synchronize() ? cudaSuccess : last_error; }

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
}
