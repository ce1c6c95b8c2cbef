// matmul on CPU tensors. ATen multiplies in the accumulator's dtype; bias, activation and the one rounding follow in a
// single pass. float32 products are IEEE whatever torch's own settings allow.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>

#include "../kernel_log.h"
#include "../matmul_checks.h"

namespace tileon {
namespace {

using torch::headeronly::IntHeaderOnlyArrayRef;

// ATen must not record what it computes for us: the op's gradient is its own (tileon_ops/_autograd.py).
class NoGrad {
 public:
  NoGrad() : enabled_(aoti_torch_grad_mode_is_enabled()) { aoti_torch_grad_mode_set_enabled(false); }
  ~NoGrad() { aoti_torch_grad_mode_set_enabled(enabled_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool enabled_;
};

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
  return torch::stable::to(matrix, scalar_type(accumulator));
}

// `op` is aten::mm (2-D x 2-D) or aten::bmm (3-D x 3-D). Their `out` overloads are those that autocast leaves alone:
// the others would multiply in 16 bits under it.
void multiply_into(const Tensor& sums, const char* op, const Tensor& a, const Tensor& b) {
  std::array<StableIValue, 3> stack{torch::stable::detail::from(a), torch::stable::detail::from(b),
                                    torch::stable::detail::from(sums)};
  if (torch_call_dispatcher(op, "out", stack.data(), TORCH_ABI_VERSION) != 0)
    fail("matmul: torch's own ", op, " failed on the CPU");
  static_cast<void>(torch::stable::detail::to<Tensor>(stack[0]));  // takes the returned reference back
}

// Whether ATen multiplies float32 as IEEE says. torch.set_float32_matmul_precision and its kin let it round the
// operands to bfloat16 or TF32 on some CPUs; the stable ABI does not tell, so a small product does.
bool float32_products_are_ieee() {
  constexpr int64_t kSize = 32;
  constexpr double kElement = 1 + 1.0 / (1 << 12);  // rounds to 1 in bfloat16 and TF32
  const std::array<int64_t, 2> shape{kSize, kSize};
  const Tensor factor = torch::stable::full({shape.data(), shape.size()}, kElement, ScalarType::Float);
  const Tensor sums = torch::stable::new_empty(factor, {shape.data(), shape.size()});
  multiply_into(sums, "aten::mm", factor, factor);
  return *static_cast<const float*>(sums.const_data_ptr()) > kSize * kElement;  // the square is larger still
}

// Writes a @ b into `sums`: contiguous, of the accumulator's dtype and batch * m * n elements in any shape.
void multiply(const GemmProblem& problem, const Tensor& a, const Tensor& b, DType accumulator, const Tensor& sums) {
  if (accumulator == DType::kFloat32 && !float32_products_are_ieee()) {
    const std::array<int64_t, 2> rows{problem.batch * problem.m, problem.n};
    Tensor wide_sums = torch::stable::new_empty(sums, {rows.data(), rows.size()}, ScalarType::Double);
    multiply(problem, a, b, DType::kFloat64, wide_sums);
    Tensor narrow_sums = viewed(sums, {rows[0], rows[1]});
    torch::stable::copy_(narrow_sums, wide_sums);
    return;
  }
  const Tensor wide_a = accumulator_operand(a, accumulator);
  const Tensor wide_b = accumulator_operand(b, accumulator);
  if (wide_b.dim() == 2) {
    const std::array<int64_t, 2> flat{problem.batch * problem.m, problem.k};
    const Tensor flat_a = wide_a.dim() == 2 ? wide_a : torch::stable::reshape(wide_a, {flat.data(), flat.size()});
    multiply_into(viewed(sums, {problem.batch * problem.m, problem.n}), "aten::mm", flat_a, wide_b);
  } else {
    multiply_into(viewed(sums, {problem.batch, problem.m, problem.n}), "aten::bmm",
                  wide_a.dim() == 2 ? expanded(wide_a, problem.batch) : wide_a, wide_b);
  }
}

// One row: `function` of every sum plus its bias, rounded. With adjacent columns the compiler makes vectors of it.
template <typename Accumulator, typename Out, typename Function>
void write_row(const Accumulator* sums, const Accumulator* bias, int64_t columns, Out* out, int64_t stride,
               const Function& function) {
  if (stride == 1 && bias == nullptr) {
    for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<Out>(function(sums[i]));
  } else if (stride == 1) {
    for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<Out>(function(sums[i] + bias[i]));
  } else {
    for (int64_t i = 0; i < columns; ++i)
      out[i * stride] = static_cast<Out>(function(bias == nullptr ? sums[i] : sums[i] + bias[i]));
  }
}

template <typename Accumulator, typename Out, typename Function>
void write_rows(const GemmProblem& problem, const Accumulator* sums, const Accumulator* bias,
                const Function& function) {
  constexpr int64_t kElementsPerTask = 1 << 15;  // some 10 us of work: far more than waking a thread costs
  const int64_t rows_per_task = 1 + kElementsPerTask / problem.n;
  const Output& out = problem.out;
  torch::stable::parallel_for(0, problem.batch * problem.m, rows_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Out* to = static_cast<Out*>(out.data) + row / problem.m * out.stride_batch + row % problem.m * out.stride_m;
      write_row(sums + row * problem.n, bias, problem.n, to, out.stride_n, function);
    }
  });
}

// Bias, activation and rounding of every sum; the output may be the sums' own memory.
template <typename Accumulator, typename Out>
void write_output(const GemmProblem& problem, const Accumulator* sums, const Accumulator* bias) {
  const auto slope = static_cast<Accumulator>(problem.epilogue.slope);
  const Activation activation = problem.epilogue.activation;
  if (activation == Activation::kNone || activation == Activation::kLeakyRelu) {  // the cheap ones, without a branch
    const Accumulator slope_or_1 = activation == Activation::kNone ? Accumulator(1) : slope;
    write_rows<Accumulator, Out>(problem, sums, bias, [=](Accumulator x) { return leaky_relu(x, slope_or_1); });
  } else {
    write_rows<Accumulator, Out>(problem, sums, bias, [=](Accumulator x) { return activate(x, activation, slope); });
  }
}

template <typename Accumulator>
void write_output(const GemmProblem& problem, const Tensor& sums, const std::optional<Tensor>& bias) {
  const auto* in = static_cast<const Accumulator*>(sums.const_data_ptr());
  const auto* added = bias ? static_cast<const Accumulator*>(bias->const_data_ptr()) : nullptr;
  if constexpr (std::is_same_v<Accumulator, double>) {
    write_output<double, double>(problem, in, added);
  } else {
    switch (problem.out_dtype) {
      case DType::kFloat16:
        return write_output<float, torch::headeronly::Half>(problem, in, added);
      case DType::kBFloat16:
        return write_output<float, torch::headeronly::BFloat16>(problem, in, added);
      case DType::kFloat32:
        return write_output<float, float>(problem, in, added);
      default:
        fail("matmul: no ", info(problem.out_dtype).name, " output of float32 sums");  // check_out_dtype has refused it
    }
  }
}

// Fills `out`, which is complete but for its elements.
void run_matmul(GemmProblem& problem, const MatmulArguments& arguments, const Tensor& out) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  const NoGrad no_grad;
  const DType accumulator = problem.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const bool in_place = problem.out_dtype == accumulator && out.is_contiguous();
  const std::array<int64_t, 1> elements{problem.batch * problem.m * problem.n};
  const Tensor sums =
      in_place ? out : torch::stable::new_empty(out, {elements.data(), elements.size()}, scalar_type(accumulator));
  multiply(problem, arguments.a, arguments.b, accumulator, sums);

  record_kernel("cpu_aten");
  log_call(problem);
  if (in_place && !arguments.bias && problem.epilogue.activation == Activation::kNone) return;  // nothing to add
  std::optional<Tensor> bias;
  if (arguments.bias) bias = torch::stable::contiguous(torch::stable::to(*arguments.bias, scalar_type(accumulator)));
  problem.out = output_of(out);
  if (accumulator == DType::kFloat64)
    write_output<double>(problem, sums, bias);
  else
    write_output<float>(problem, sums, bias);
}

Tensor matmul(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
              double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
  GemmProblem problem = check_matmul(arguments);
  const Tensor out = new_output(problem, arguments);
  run_matmul(problem, arguments, out);
  return out;
}

void matmul_out(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
                double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum, Tensor out) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
  GemmProblem problem = check_matmul(arguments);
  check_out(problem, arguments, out);
  run_matmul(problem, arguments, out);
}

Tensor matmul_with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, int64_t config,
                          const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                          bool allow_tf32) {
  check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, false});
  if (config < 0) fail("matmul: `config` must not be negative, got ", config);
  fail("matmul: `config` ", config, " is a row of the GPU's tile table, got operands on the CPU");
}

}  // namespace
}  // namespace tileon

STABLE_TORCH_LIBRARY_IMPL(tileon, CPU, m) {
  m.impl("matmul", TORCH_BOX(&tileon::matmul));
  m.impl("matmul.out", TORCH_BOX(&tileon::matmul_out));
  m.impl("_matmul_with_config", TORCH_BOX(&tileon::matmul_with_config));
}
