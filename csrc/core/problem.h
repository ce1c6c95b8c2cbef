// The plain structs that cross from torch to the kernels. No torch header and no CUDA header here.
#pragma once

#include <cstdint>

#include "core/block_formats.h"
#include "core/device_flag.h"
#include "core/dtypes.h"
#include "core/epilogue.h"
#include "core/prepared_weight.h"
#include "core/scale_layout.h"

namespace tileon {

// One operand of a product, read through strides counted in elements. `mn` is the operand's own free
// dimension: m for a, n for b. A stride may be 0 (expanded views).
struct Operand {
  const void* data = nullptr;
  int64_t stride_mn = 0;
  int64_t stride_k = 0;
  int64_t stride_batch = 0;  // 0 where one matrix is shared by the whole batch
};

struct Output {
  void* data = nullptr;
  int64_t stride_m = 0;
  int64_t stride_n = 0;
  int64_t stride_batch = 0;
};

// out[i] = activation(a[i] @ b[i] + bias), for i < batch.
struct GemmProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kFloat32;  // of both operands; of a where both are fp8
  DType b_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  bool allow_tf32 = false;  // only read where dtype is float32
  bool fast_accum = false;  // only read where both are fp8: sums may stay in the tensor core (docs/fp8_error.md)
  Operand a;
  Operand b;
  Output out;
  Epilogue epilogue;
  void* pre_activation = nullptr;  // where the sums go besides, with their bias: laid out and rounded as the output
  DeviceFlag device_flag;          // under which it is computed at all; only of float32 without allow_tf32

  // Multiplications; a double, since they may be more than an integer holds.
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// One operand of a block-scaled product: rows of k elements. Strides are in bytes.
struct BlockScaledOperand {
  const void* data = nullptr;
  int64_t stride_row = 0;
  int64_t stride_k = 0;  // from byte to byte: of e2m1, from pair to pair
  ElementType element = ElementType::kE4M3;
  const void* scale = nullptr;
  ScaleStrides scale_strides{};
};

// out = activation(global_scale * (a * scale_a) @ (b * scale_b)^T + bias); b has a row for every column of the output.
struct BlockScaledProblem {
  static constexpr int64_t batch = 1;  // what products of matrices share reads it
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;  // a multiple of vec
  ScaleType scale_type = ScaleType::kE8M0;
  int vec = 32;  // elements that share a scale
  DType out_dtype = DType::kFloat16;
  bool fast_accum = false;  // mxfp4 may be multiplied as e5m2 (docs/fp8_error.md)
  BlockScaledOperand a;
  BlockScaledOperand b;
  PreparedWeight prepared_b;  // of the same weight, besides
  Output out;
  Epilogue epilogue;
  const float* global_scale = nullptr;  // one element, or null: 1
  DeviceFlag device_flag;               // under which it is computed at all

  bool is_mxfp4() const {
    return a.element == ElementType::kE2M1 && b.element == ElementType::kE2M1 && scale_type == ScaleType::kE8M0;
  }
  double products() const { return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

}  // namespace tileon
