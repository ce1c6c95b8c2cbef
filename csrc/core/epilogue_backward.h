// What the gradients of a product need before its own backward products: the plain struct that crosses from torch to
// the kernels. No torch header and no CUDA header here.
#pragma once

#include <cstdint>

#include "core/dtypes.h"
#include "core/epilogue.h"

namespace tileon {

// With y = activation(z), z the product with its bias, and grad the gradient of y, for each of batch x m rows:
//   grad_z    = grad activation'(z), rounded once, and
//   grad_bias = the sum of all rows of grad activation'(z), in the accumulator's type.
struct EpilogueBackwardProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  DType grad_dtype = DType::kFloat32;  // of grad and of saved
  DType out_dtype = DType::kFloat32;   // of grad_z
  DType bias_dtype = DType::kFloat32;  // of grad_bias
  const void* grad = nullptr;          // any strides, in elements; 0 where it is expanded
  int64_t stride_batch = 0;
  int64_t stride_m = 0;
  int64_t stride_n = 0;
  const void* saved =
      nullptr;             // [batch][m][n]: z, or y where that tells as much (epilogue.h); null without an activation
  void* grad_z = nullptr;  // [batch][m][n]
  void* grad_bias = nullptr;  // [n], or null where nobody wants it
  Activation activation = Activation::kNone;
  double slope = 0.01;

  TILEON_HOST_DEVICE int64_t rows() const { return batch * m; }
};

}  // namespace tileon
