// Products on CPU tensors: unscaled operands in the accumulator's dtype and in the shapes that ATen multiplies; scaled
// ones by scaled_products.cpp.
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <initializer_list>
#include <memory>

#include "cpu/device.h"
#include "cpu/fold.h"
#include "cpu/scaled_products.h"
#include "cpu/sums.h"
#include "entry/products.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

using torch::headeronly::IntHeaderOnlyArrayRef;

Tensor viewed(const Tensor& tensor, std::initializer_list<int64_t> sizes) {
  return torch::stable::view(tensor, IntHeaderOnlyArrayRef(sizes.begin(), sizes.size()));
}

Tensor expanded(const Tensor& matrix, int64_t batch) {
  const std::array<int64_t, 3> sizes{batch, matrix.size(0), matrix.size(1)};
  std::array<StableIValue, 3> stack{torch::stable::detail::from(matrix),
                                    torch::stable::detail::from(IntHeaderOnlyArrayRef(sizes.data(), sizes.size())),
                                    torch::stable::detail::from(false)};
  if (torch_call_dispatcher("aten::expand", "", stack.data(), TORCH_ABI_VERSION) != 0)
    fail("matmul: torch could not expand a matrix over the batch");
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// The operand in the accumulator's dtype, 2-D where the whole batch shares it.
Tensor accumulator_operand(const Tensor& operand, DType accumulator) {
  Tensor matrix = operand;
  if (operand.dim() == 3 && operand.size(0) == 1) matrix = torch::stable::select(matrix, 0, 0);
  return converted(matrix, scalar_type(accumulator));
}

// Writes a @ b into `sums`: contiguous, of the accumulator's dtype and the output's shape.
void multiply(const Problem& problem, const Tensor& a, const Tensor& b, DType accumulator, const Tensor& sums) {
  const Tensor wide_a = accumulator_operand(a, accumulator);
  const Tensor wide_b = accumulator_operand(b, accumulator);
  if (wide_b.dim() == 2) {
    const std::array<int64_t, 2> flat{problem.batch * problem.m, problem.k};
    const Tensor flat_a = wide_a.dim() == 2 ? wide_a : reshaped(wide_a, {flat.data(), flat.size()});
    multiply_into(viewed(sums, {problem.batch * problem.m, problem.n}), flat_a, wide_b);
  } else {
    multiply_into(viewed(sums, {problem.batch, problem.m, problem.n}),
                  wide_a.dim() == 2 ? expanded(wide_a, problem.batch) : wide_a, wide_b);
  }
}

struct Cpu : CpuDevice {
  [[noreturn]] static void require_prepared(const char* op) {
    fail(op, ": needs a GPU of compute capability 9.0, got operands on the CPU");
  }
  [[noreturn]] static Tensor prepare(const Problem&, PreparedForm, const Tensor&) {
    require_prepared("_prepare_block_scaled");
  }

  static void run_scaled(const Problem& problem, const ProductArguments& arguments, const Tensor& out) {
    const std::optional<Tensor> bias = bias_as(ScalarType::Float, arguments.bias);
    const GlobalScale global_scale{problem.global_scale, problem.global_scale_stride};
    const FinishedSums finished = finished_sums(problem.epilogue, bias, global_scale, out);
    Problem folded = problem;
    std::unique_ptr<int16_t[]> of_a, of_b;
    if (problem.may_be_folded()) {
      of_a = fold_powers(problem.a, problem.m, problem.k);
      of_b = fold_powers(problem.b, problem.n, problem.k);
      folded.a.scale.fold_powers = of_a.get();
      folded.b.scale.fold_powers = of_b.get();
    }
    record_kernel(multiply_scaled(folded, finished));
    log_call(problem);
  }

  static void run(const Problem& problem, const ProductArguments& arguments, const Tensor& out,
                  const Tensor* pre_activation, int64_t) {
    if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
    const NoGrad no_grad;
    if (problem.is_scaled()) return run_scaled(problem, arguments, out);
    const DType accumulator = problem.a.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const Tensor sums = sums_for(out, accumulator);
    multiply(problem, arguments.a, arguments.b, accumulator, sums);
    if (pre_activation != nullptr) {  // before the output takes the sums' memory
      Epilogue bias_alone = problem.epilogue;
      bias_alone.activation = Activation::kNone;
      write_output(sums, bias_alone, arguments.bias, {}, *pre_activation);
    }
    write_output(sums, problem.epilogue, arguments.bias, {problem.global_scale, problem.global_scale_stride}, out);
    record_kernel("cpu_aten");
    log_call(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CPU, m) { tileon::ProductEntries<tileon::Cpu>::add_to(m); }
