// The plain structs that cross from torch to the kernels. No torch header and no CUDA header here.
#pragma once

#include <cstdint>

#include "dtypes.h"
#include "epilogue.h"

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
  DType dtype = DType::kFloat32;  // of both operands
  DType out_dtype = DType::kFloat32;
  bool allow_tf32 = false;  // only read where dtype is float32
  Operand a;
  Operand b;
  Output out;
  Epilogue epilogue;

  // Multiplications; a double, since they may be more than an integer holds.
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

}  // namespace tileon
