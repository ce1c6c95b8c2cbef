#include "cuda/runtime/tensor_map.h"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "cuda/runtime/error.h"

namespace tileon {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  constexpr unsigned version = 12000;  // of CUDA, whose form of the function this is
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, version, cudaEnableDefault, &found),
             "looking for cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr)
    throw std::runtime_error("tileon: this GPU driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
  return reinterpret_cast<Encode>(function);
}

// The driver wants a current context, and a thread that has not called CUDA's runtime yet has none: torch's thread for
// gradients, where a product is the first call and torch had the memory at hand.
void bind_context() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  check_cuda(cudaSetDevice(device), "making a device the current one");
}

}  // namespace

CUtensorMap encode_tensor_map(const void* data, CUtensorMapDataType type, const TensorBox& tensor,
                              CUtensorMapSwizzle swizzle) {
  static const Encode encode = find_encode();
  constexpr uint32_t dense[5] = {1, 1, 1, 1, 1};
  // The driver wants the map aligned to 64 bytes. g++ 12 aligns the place of a returned value less than the value's
  // type asks, but not a variable's member, which is copied there.
  struct {
    CUtensorMap map;
  } encoded;
  // L2 fetches the 128-byte lines that a box touches. Fetching 256 bytes would bring neighbours that a box of 128-byte
  // rows may never want: products of operands whose rows begin anywhere then take up to a sixth longer, and hardly any
  // less.
  const auto try_to_encode = [&] {
    return encode(&encoded.map, type, tensor.dimensions, const_cast<void*>(data), tensor.sizes, tensor.strides + 1,
                  tensor.box, dense, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = try_to_encode();
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    bind_context();
    result = try_to_encode();
  }
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("tileon: cuTensorMapEncodeTiled refused a tensor, CUresult " +
                             std::to_string(static_cast<int>(result)));
  return encoded.map;
}

}  // namespace tileon
