// What the products on CPU tensors share: sums in the accumulator's dtype, float32 or float64; global scale, bias,
// activation and the one rounding follow in a single pass.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>

#include "core/problem.h"

namespace tileon {

// ATen must not record what it computes for an op: the op's gradient is its own (tileon_ops/).
class NoGrad {
 public:
  NoGrad() : enabled_(aoti_torch_grad_mode_is_enabled()) { aoti_torch_grad_mode_set_enabled(false); }
  ~NoGrad() { aoti_torch_grad_mode_set_enabled(enabled_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool enabled_;
};

// Where the sums of a product go before they are finished: `out` itself if that is possible.
torch::stable::Tensor sums_for(const torch::stable::Tensor& out, DType accumulator);

// Whether ATen multiplies float32 as IEEE says. torch.set_float32_matmul_precision and its kin let it round the
// operands to bfloat16 or TF32 on some CPUs; the stable ABI does not tell, so a small product does.
bool float32_products_are_ieee();

// sums = a @ b by ATen, all of the accumulator's dtype, all 2-D or all 3-D.
void multiply_into(const torch::stable::Tensor& sums, const torch::stable::Tensor& a, const torch::stable::Tensor& b);

// What the sums are multiplied by: one number for all, or one for each row.
struct GlobalScale {
  const float* data = nullptr;  // null: 1
  int64_t stride = 0;           // from row to row

  float of_row(int64_t row) const { return data == nullptr ? 1.0f : data[row * stride]; }
};

// The bias as the accumulator holds it, contiguous.
std::optional<torch::stable::Tensor> bias_as(torch::headeronly::ScalarType accumulator,
                                             const std::optional<torch::stable::Tensor>& bias);

// What becomes of sums: activation(global_scale * sum + bias), rounded to the output's dtype.
struct FinishedSums {
  Output out;
  DType out_dtype;
  int64_t m;  // rows of a batch
  Activation activation;
  double slope;
  GlobalScale global_scale;
  const void* bias;  // [n] of the accumulator's dtype, or null
};

// `bias` comes from bias_as, and lives as long as what is returned.
FinishedSums finished_sums(const Epilogue& epilogue, const std::optional<torch::stable::Tensor>& bias,
                           const GlobalScale& global_scale, const torch::stable::Tensor& out);

// Columns [col, col + cols) of rows [row, row + rows); sums: [rows][stride].
void write_block(const FinishedSums& finished, const float* sums, int64_t stride, int64_t row, int64_t rows,
                 int64_t col, int64_t cols);
void write_block(const FinishedSums& finished, const double* sums, int64_t stride, int64_t row, int64_t rows,
                 int64_t col, int64_t cols);

// out = activation(global_scale * sums + bias), rounded; `sums` comes from sums_for. `bias` is the epilogue's.
void write_output(const torch::stable::Tensor& sums, const Epilogue& epilogue,
                  const std::optional<torch::stable::Tensor>& bias, const GlobalScale& global_scale,
                  const torch::stable::Tensor& out);

}  // namespace tileon
