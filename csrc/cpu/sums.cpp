#include "cpu/sums.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <array>
#include <type_traits>

#include "checks/operands.h"
#include "core/small_floats.h"

namespace tileon {
namespace {

// ---- products ----

// By the `out` overloads of aten::mm and aten::bmm, which autocast leaves alone: it would turn the other overloads to
// 16 bits.
void aten_multiply_into(const Tensor& sums, const Tensor& a, const Tensor& b) {
  const char* op = sums.dim() == 2 ? "aten::mm" : "aten::bmm";
  std::array<StableIValue, 3> stack{torch::stable::detail::from(a), torch::stable::detail::from(b),
                                    torch::stable::detail::from(sums)};
  if (torch_call_dispatcher(op, "out", stack.data(), TORCH_ABI_VERSION) != 0) {
    const std::string words = torchs_words();
    fail("tileon: torch's own ", op, " failed on the CPU", words.empty() ? "" : ": " + words);
  }
  static_cast<void>(torch::stable::detail::to<Tensor>(stack[0]));  // takes the returned reference back
}

// Whether ATen multiplies float32 as IEEE says. torch.set_float32_matmul_precision and its kin let it round the
// operands to bfloat16 or TF32 on some CPUs; the stable ABI does not tell, so a small product does.
bool float32_products_are_ieee() {
  constexpr int64_t kSize = 32;
  constexpr double kElement = 1 + 1.0 / (1 << 12);  // rounds to 1 in bfloat16 and TF32
  const std::array<int64_t, 2> shape{kSize, kSize};
  const Tensor factor = torch::stable::full({shape.data(), shape.size()}, kElement, ScalarType::Float);
  const Tensor sums = torch::stable::empty_like(factor);
  aten_multiply_into(sums, factor, factor);
  return *static_cast<const float*>(sums.const_data_ptr()) > kSize * kElement;  // the square is larger still
}

// ---- from sums to the output ----

struct Float8E4M3 {
  uint8_t code;
  explicit Float8E4M3(float value) : code(static_cast<uint8_t>(e4m3_code(value))) {}  // saturates
};

template <typename Accumulator>
struct Sums {
  const Accumulator* data;  // [batch][m][n], contiguous
  int64_t batch, m, n;
  GlobalScale global_scale;
  const Accumulator* bias;  // [n] or null
  Output out;
};

// One row: `function` of every sum times `factor` plus its bias, rounded. With adjacent columns the compiler makes
// vectors of it.
template <typename Accumulator, typename Out, typename Function>
void write_row(const Sums<Accumulator>& product, const Accumulator* sums, Accumulator factor, Out* out,
               const Function& function) {
  const int64_t columns = product.n, stride = product.out.stride_n;
  const Accumulator* bias = product.bias;
  if (stride == 1 && bias == nullptr) {
    for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<Out>(function(sums[i] * factor));
  } else if (stride == 1) {
    for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<Out>(function(sums[i] * factor + bias[i]));
  } else {
    for (int64_t i = 0; i < columns; ++i)
      out[i * stride] = static_cast<Out>(function(bias == nullptr ? sums[i] * factor : sums[i] * factor + bias[i]));
  }
}

template <typename Out, typename Accumulator, typename Function>
void write_rows(const Sums<Accumulator>& sums, const Function& function) {
  constexpr int64_t kElementsPerTask = 1 << 15;  // some 10 us of work: far more than waking a thread costs
  const int64_t rows_per_task = 1 + kElementsPerTask / sums.n;
  const Output& out = sums.out;
  torch::stable::parallel_for(0, sums.batch * sums.m, rows_per_task, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Out* to = static_cast<Out*>(out.data) + row / sums.m * out.stride_batch + row % sums.m * out.stride_m;
      write_row(sums, sums.data + row * sums.n, static_cast<Accumulator>(sums.global_scale.of_row(row)), to, function);
    }
  });
}

// Every sum; the output may be the sums' own memory.
template <typename Out, typename Accumulator>
void write_all(const Sums<Accumulator>& sums, const Epilogue& epilogue) {
  const auto slope = static_cast<Accumulator>(epilogue.slope);
  const Activation activation = epilogue.activation;
  if (activation == Activation::kNone || activation == Activation::kLeakyRelu) {  // the cheap ones, without a branch
    const Accumulator slope_or_1 = activation == Activation::kNone ? Accumulator(1) : slope;
    write_rows<Out>(sums, [=](Accumulator x) { return leaky_relu(x, slope_or_1); });
  } else {
    write_rows<Out>(sums, [=](Accumulator x) { return activate(x, activation, slope); });
  }
}

template <typename Accumulator>
void write_output_of(const Tensor& sums, const Epilogue& epilogue, const std::optional<Tensor>& bias,
                     const GlobalScale& global_scale, const Tensor& out) {
  std::optional<Tensor> added;
  if (bias) added = made_contiguous(converted(*bias, sums.scalar_type()));
  const int64_t dims = out.dim();
  const Sums<Accumulator> all{static_cast<const Accumulator*>(sums.const_data_ptr()),
                              dims == 3 ? out.size(0) : 1,
                              out.size(dims - 2),
                              out.size(dims - 1),
                              global_scale,
                              added ? static_cast<const Accumulator*>(added->const_data_ptr()) : nullptr,
                              output_of(out)};
  if constexpr (std::is_same_v<Accumulator, double>) {
    write_all<double>(all, epilogue);
  } else {
    switch (out.scalar_type()) {
      case ScalarType::Half:
        return write_all<torch::headeronly::Half>(all, epilogue);
      case ScalarType::BFloat16:
        return write_all<torch::headeronly::BFloat16>(all, epilogue);
      case ScalarType::Float:
        return write_all<float>(all, epilogue);
      case ScalarType::Float8_e4m3fn:
        return write_all<Float8E4M3>(all, epilogue);
      default:  // the ops' checks have refused it
        fail("tileon: no ", dtype_name(out.scalar_type()), " output of float32 sums");
    }
  }
}

}  // namespace

Tensor sums_for(const Tensor& out, DType accumulator) {
  if (out.scalar_type() == scalar_type(accumulator) && out.is_contiguous()) return out;
  return allocate("the sums of a product", out, shape_of(out), scalar_type(accumulator));
}

void multiply_into(const Tensor& sums, const Tensor& a, const Tensor& b) {
  if (sums.scalar_type() != ScalarType::Float || float32_products_are_ieee()) return aten_multiply_into(sums, a, b);
  const Tensor wide_sums = allocate("the sums of a product", sums, shape_of(sums), ScalarType::Double);
  aten_multiply_into(wide_sums, converted(a, ScalarType::Double), converted(b, ScalarType::Double));
  Tensor narrow_sums = sums;
  torch::stable::copy_(narrow_sums, wide_sums);
}

void write_output(const Tensor& sums, const Epilogue& epilogue, const std::optional<Tensor>& bias,
                  const GlobalScale& global_scale, const Tensor& out) {
  const bool is_finished = !has_epilogue(epilogue) && global_scale.data == nullptr;
  if (is_finished && sums.const_data_ptr() == out.const_data_ptr()) return;
  if (sums.scalar_type() == ScalarType::Double)
    write_output_of<double>(sums, epilogue, bias, global_scale, out);
  else
    write_output_of<float>(sums, epilogue, bias, global_scale, out);
}

}  // namespace tileon
