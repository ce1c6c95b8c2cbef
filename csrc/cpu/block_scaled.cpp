// block_scaled_matmul on CPU tensors: both operands become float32, element times scale, and ATen multiplies them.
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "cpu/dequantize_row.h"
#include "cpu/device.h"
#include "cpu/products.h"
#include "entry/block_scaled.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

// The operand as float32, (rows, k).
Tensor dequantized(const Problem& problem, const Operand& operand, int64_t rows, const Tensor& like) {
  constexpr int64_t kElementsPerTask = 1 << 15;  // some 10 us of work: far more than waking a thread costs
  const Tensor values = allocate("an operand as float32", like, {2, {rows, problem.k}}, ScalarType::Float);
  auto* const to = static_cast<float*>(values.mutable_data_ptr());
  const int64_t rows_per_task = 1 + kElementsPerTask / (problem.k + 1);
  torch::stable::parallel_for(0, rows, rows_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) dequantize_row(operand, row, problem.k, 1, to + row * problem.k);
  });
  return values;
}

struct Cpu : CpuDevice {
  [[noreturn]] static void require_prepared(const char* op) {
    fail(op, ": needs a GPU of compute capability 9.0, got operands on the CPU");
  }
  [[noreturn]] static Tensor prepare(const Problem&, PreparedForm, const Tensor&) {
    require_prepared("_prepare_block_scaled");
  }

  static void run(const Problem& problem, const BlockScaledArguments& arguments, const Tensor& out, int64_t) {
    if (problem.m == 0 || problem.n == 0) return;
    const NoGrad no_grad;
    const Tensor a = dequantized(problem, problem.a, problem.m, arguments.a);
    Tensor b = dequantized(problem, problem.b, problem.n, arguments.b);
    const Tensor sums = sums_for(out, DType::kFloat32);
    multiply_into(sums, a, torch::stable::transpose(b, 0, 1));
    const float global_scale = problem.global_scale == nullptr ? 1 : *problem.global_scale;
    write_output(sums, problem.epilogue, arguments.bias, global_scale, out);
    record_kernel("cpu_aten");
    log_call(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CPU, m) { tileon::BlockScaledEntry<tileon::Cpu>::add_to(m); }
