// The one place that encodes TMA descriptors. No link to libcuda: the driver is asked for the function at run time.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tileon {

// A tensor of up to five dimensions, innermost first.
struct TensorBox {
  int dimensions;
  uint64_t sizes[5];    // elements
  uint64_t strides[5];  // bytes, from dimension 1 on; multiples of 16. The innermost one is dense.
  uint32_t box[5];      // elements of one transfer
};

// Throws std::runtime_error where the driver refuses.
CUtensorMap encode_tensor_map(const void* data, CUtensorMapDataType type, const TensorBox& tensor,
                              CUtensorMapSwizzle swizzle);

}  // namespace tileon
