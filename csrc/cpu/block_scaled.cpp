// block_scaled_matmul on CPU tensors: both operands become float32, element times scale, and ATen multiplies them.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>

#include "checks/block_scaled.h"
#include "checks/prepared.h"
#include "cpu/dequantize_row.h"
#include "cpu/products.h"
#include "entry/registration.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

// The operand as float32, (rows, k).
Tensor dequantized(const BlockScaledProblem& problem, const BlockScaledOperand& operand, int64_t rows,
                   const Tensor& like) {
  constexpr int64_t kElementsPerTask = 1 << 15;  // some 10 us of work: far more than waking a thread costs
  const Tensor values = allocate("an operand as float32", like, {2, {rows, problem.k}}, ScalarType::Float);
  auto* const to = static_cast<float*>(values.mutable_data_ptr());
  const int64_t rows_per_task = 1 + kElementsPerTask / (problem.k + 1);
  torch::stable::parallel_for(0, rows, rows_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      dequantize_row(operand, problem.scale_type, problem.vec, row, problem.k, 1, to + row * problem.k);
  });
  return values;
}

// Fills `out`, which is complete but for its elements.
void run_block_scaled(const BlockScaledProblem& problem, const BlockScaledArguments& arguments, const Tensor& out) {
  if (problem.m == 0 || problem.n == 0) return;
  const NoGrad no_grad;
  const Tensor a = dequantized(problem, problem.a, problem.m, arguments.a);
  Tensor b = dequantized(problem, problem.b, problem.n, arguments.b);
  const Tensor sums = sums_for(out, DType::kFloat32);
  multiply_into(sums, a, torch::stable::transpose(b, 0, 1));
  write_output(sums, problem.epilogue, arguments.bias, problem.global_scale == nullptr ? 1 : *problem.global_scale,
               out);
  record_kernel("cpu_aten");
  log_call(problem);
}

Tensor block_scaled_matmul(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                           const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                           const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                           bool fast_accum) {
  const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                       activation, slope, out_dtype, fast_accum};
  const BlockScaledProblem problem = check_block_scaled(arguments);
  const Tensor out = new_output(problem, arguments);
  run_block_scaled(problem, arguments, out);
  return out;
}

void block_scaled_matmul_out(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                             const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                             const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                             bool fast_accum, Tensor out) {
  const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                       activation, slope, out_dtype, fast_accum};
  const BlockScaledProblem problem = check_block_scaled(arguments);
  check_out(problem, arguments, out);
  run_block_scaled(problem, arguments, out);
}

Tensor block_scaled_matmul_with_config(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                       const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                       int64_t config, const std::string& activation, double slope,
                                       std::optional<ScalarType> out_dtype) {
  check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, false});
  if (config < 0) fail("block_scaled_matmul: `config` must not be negative, got ", config);
  fail("block_scaled_matmul: `config` ", config, " is a row of the GPU's tile table, got operands on the CPU");
}

Tensor prepare_block_scaled(const Tensor& b, const Tensor& scale_b, const std::string& form) {
  check_prepare(b, scale_b, form);
  fail("_prepare_block_scaled: needs a GPU of compute capability 9.0, got operands on the CPU");
}

Tensor block_scaled_matmul_prepared(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                    const Tensor& prepared_b, const std::optional<Tensor>& bias,
                                    const std::optional<Tensor>& global_scale, const std::string& activation,
                                    double slope, std::optional<ScalarType> out_dtype, bool fast_accum) {
  const BlockScaledProblem problem =
      check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum});
  check_prepared(problem, a, prepared_b);
  fail("_block_scaled_matmul_prepared: needs a GPU of compute capability 9.0, got operands on the CPU");
}

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CPU, m) {
  m.impl("block_scaled_matmul", TORCH_BOX(&tileon::block_scaled_matmul));
  m.impl("block_scaled_matmul.out", TORCH_BOX(&tileon::block_scaled_matmul_out));
  m.impl("_block_scaled_matmul_with_config", TORCH_BOX(&tileon::block_scaled_matmul_with_config));
  m.impl("_prepare_block_scaled", TORCH_BOX(&tileon::prepare_block_scaled));
  m.impl("_block_scaled_matmul_prepared", TORCH_BOX(&tileon::block_scaled_matmul_prepared));
}
