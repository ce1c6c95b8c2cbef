// The plain structs of quantize, dequantize, pack_scales and unpack_scales that cross from torch to the kernels. No
// torch header and no CUDA header here. All outputs are fresh and contiguous; inputs have any strides, 0 included.
#pragma once

#include <cstdint>

#include "core/block_formats.h"
#include "core/block_quantize.h"
#include "core/dtypes.h"
#include "core/scale_layout.h"

namespace tileon {

struct QuantizeProblem {
  int64_t rows = 0;
  int64_t k = 0;  // a multiple of the format's vec
  Format format = Format::kMxfp8;
  ScaleRounding rounding = ScaleRounding::kFloor;
  DType dtype = DType::kFloat32;  // of x: float32, float16 or bfloat16
  const void* x = nullptr;
  int64_t stride_row = 0;  // of x, in elements
  int64_t stride_k = 0;
  const float* global_scale = nullptr;  // one element, or null: 1; nvfp4 alone has one
  uint8_t* data = nullptr;              // [rows][k / elements per byte]
  uint8_t* scale = nullptr;             // packed, of packed_bytes(); the kernel writes the padding too, as 0

  constexpr int64_t cols() const { return k / info(format).vec; }
  constexpr int64_t packed_bytes() const { return packed_scale_bytes(rows, cols()); }
};

struct DequantizeProblem {
  int64_t rows = 0;
  int64_t k = 0;  // a multiple of the format's vec
  Format format = Format::kMxfp8;
  DType out_dtype = DType::kFloat32;  // float32, float16 or bfloat16
  const uint8_t* data = nullptr;
  int64_t stride_row = 0;  // of data, in bytes
  int64_t stride_k = 0;    // from byte to byte: of e2m1, from pair to pair
  const uint8_t* scale = nullptr;
  ScaleStrides scale_strides{};
  const float* global_scale = nullptr;  // one element, or null: 1; nvfp4 alone has one
  void* out = nullptr;                  // [rows][k]

  constexpr int64_t cols() const { return k / info(format).vec; }
};

// Scales, a byte each, from one layout to the other.
struct ScalePackProblem {
  int64_t rows = 0;  // of the 2-D scales
  int64_t cols = 0;
  const uint8_t* from = nullptr;
  ScaleStrides from_strides{};
  uint8_t* to = nullptr;
  bool to_packed = true;  // `to` is packed, of packed_bytes(), padding written as 0; otherwise it is [rows][cols]

  constexpr int64_t packed_bytes() const { return packed_scale_bytes(rows, cols); }
};

}  // namespace tileon
