// Products on CPU tensors: by the tiles of tiles/multiply.cpp, or by ATen in the accumulator's dtype and in the shapes
// that it multiplies.
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <string>

#include "cpu/choice.h"
#include "cpu/device.h"
#include "cpu/fold.h"
#include "cpu/magnitudes.h"
#include "cpu/quantize.h"
#include "cpu/sums.h"
#include "cpu/tiles/block.h"
#include "cpu/tiles/multiply.h"
#include "cpu/tiles/versions.h"
#include "entry/layers.h"
#include "entry/products.h"
#include "entry/quantized_linear.h"
#include "tuning/batch_invariance.h"
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
void multiply_by_aten(const Problem& problem, const Tensor& a, const Tensor& b, DType accumulator, const Tensor& sums) {
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

Epilogue without_activation(const Epilogue& epilogue) {
  Epilogue bias_alone = epilogue;
  bias_alone.activation = Activation::kNone;
  return bias_alone;
}

// ---- the choice ----

bool is_batch_invariant_now() { return is_batch_invariant.load(std::memory_order_relaxed); }

bool goes_by_aten(const Problem& problem) { return is_for_aten(problem, is_batch_invariant_now(), has_fast_tiles()); }

bool folds_on_the_cpu(const Problem& problem) { return folds(problem, is_batch_invariant_now()); }

bool bfloat16_goes_by_aten(const Problem& problem) {
  return is_bfloat16_for_aten(problem, is_batch_invariant_now()) && multiplies_pairs_of_bfloat16() &&
         are_products_of_normal(problem);
}

// Of operands without bias and activation.
bool is_product_of_aten(const Tensor& a, const Tensor& b) {
  static const std::string none = "none";
  return goes_by_aten(check_matmul(matmul_arguments(a, b, kNoTensor, none, 0.0, std::nullopt, false, false)));
}

// With a handle of its own.
Tensor tensor_of(AtenTensorHandle of) {
  AtenTensorHandle handle = nullptr;
  check_shim(aoti_torch_new_tensor_handle(of, &handle));
  return Tensor(handle);
}

struct Cpu : CpuDevice {
  [[noreturn]] static void require_prepared(const char* op) {
    fail(op, ": needs a GPU of compute capability 9.0, got operands on the CPU");
  }
  [[noreturn]] static Tensor prepare(const Problem&, PreparedForm, const Tensor&) {
    require_prepared("_prepare_block_scaled");
  }

  static int index_of(const Tensor&) { return 0; }
  static bool takes_numbers(const Problem&, Format, int) { return false; }

  static void run(const Problem& problem, const ProductArguments& arguments, AtenTensorHandle to,
                  AtenTensorHandle also_to, int64_t) {
    if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
    const NoGrad no_grad;
    const Tensor out = tensor_of(to);
    const std::optional<Tensor> kept = also_to == nullptr ? std::nullopt : std::optional(tensor_of(also_to));
    const Tensor* const pre_activation = kept ? &*kept : nullptr;
    const DType accumulator = problem.a.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    if (pre_activation == nullptr && bfloat16_goes_by_aten(problem))
      run_bfloat16_by_aten(arguments, out);
    else if (goes_by_aten(problem) && (accumulator == DType::kFloat64 || float32_products_are_ieee()))
      run_by_aten(problem, arguments, accumulator, out, pre_activation);
    else
      run_by_tiles(problem, arguments, accumulator, out, pre_activation);
    log_call(problem);
  }

  static void run_by_tiles(const Problem& problem, const ProductArguments& arguments, DType accumulator,
                           const Tensor& out, const Tensor* pre_activation) {
    const std::optional<Tensor> bias = bias_as(scalar_type(accumulator), arguments.bias);
    const GlobalScale global_scale{problem.global_scale, problem.global_scale_stride};
    const FinishedSums finished = finished_sums(problem.epilogue, bias, global_scale, out);
    std::optional<FinishedSums> before;
    if (pre_activation != nullptr)
      before = finished_sums(without_activation(problem.epilogue), bias, global_scale, *pre_activation);
    Problem folded = problem;
    std::unique_ptr<int16_t[]> of_a, of_b;
    if (folds_on_the_cpu(problem)) {
      of_a = fold_powers(problem.a, problem.m, problem.k);
      of_b = fold_powers(problem.b, problem.n, problem.k);
      folded.a.scale.fold_powers = of_a.get();
      folded.b.scale.fold_powers = of_b.get();
    }
    record_kernel(multiply_by_tiles(folded, finished, before ? &*before : nullptr, is_batch_invariant_now()));
  }

  static void run_bfloat16_by_aten(const ProductArguments& arguments, const Tensor& out) {
    const auto matrix = [](const Tensor& operand) {
      return operand.dim() == 3 ? torch::stable::select(operand, 0, 0) : operand;
    };
    multiply_into(matrix(out), matrix(arguments.a), matrix(arguments.b));
    record_kernel("cpu_aten");
  }

  static void run_by_aten(const Problem& problem, const ProductArguments& arguments, DType accumulator,
                          const Tensor& out, const Tensor* pre_activation) {
    const Tensor sums = sums_for(out, accumulator);
    multiply_by_aten(problem, arguments.a, arguments.b, accumulator, sums);
    if (pre_activation != nullptr)  // before the output takes the sums' memory
      write_output(sums, without_activation(problem.epilogue), arguments.bias, {}, *pre_activation);
    write_output(sums, problem.epilogue, arguments.bias, {problem.global_scale, problem.global_scale_stride}, out);
    record_kernel("cpu_aten");
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CPU, m) {
  tileon::ProductEntries<tileon::Cpu>::add_to(m);
  tileon::LayerEntries<tileon::Cpu>::add_to(m);
  tileon::QuantizedLinearEntry<tileon::Cpu, tileon::CpuQuantize>::add_to(m);
  m.impl("_is_product_of_aten", TORCH_BOX(&tileon::is_product_of_aten));
}
