// A product's arguments -> Problem: what matmul and block_scaled_matmul share, and the rules of matmul, with their
// messages (see operands.h). Those of block_scaled_matmul: scaled_products.h.
#pragma once

#include <algorithm>
#include <span>

#include "checks/operands.h"

namespace tileon {

// ---- what both have ----

inline const std::optional<Tensor> kNoTensor;

// What an op was called with. Scales and a global scale are block_scaled_matmul's, allow_tf32 is matmul's.
struct ProductArguments {
  const char* op;
  const Tensor& a;
  const Tensor& b;
  const Tensor* scale_a = nullptr;  // null too where `a` is not scaled
  const Tensor* scale_b = nullptr;
  const std::optional<Tensor>& bias;
  const std::optional<Tensor>& global_scale = kNoTensor;
  const std::string& activation;
  double slope;
  std::optional<ScalarType> out_dtype;
  bool allow_tf32 = false;
  bool fast_accum = false;
};

// The output's dtype: one of `offered`, of which the first is the default. A refusal names the operands' dtype where
// `operands` is given.
inline DType check_out_dtype(const char* op, std::optional<ScalarType> wanted, std::span<const DType> offered,
                             const char* operands = nullptr) {
  if (!wanted) return offered.front();
  for (const DType dtype : offered)
    if (scalar_type(dtype) == *wanted) return dtype;
  std::string names;
  for (const DType dtype : offered) names += (names.empty() ? "" : ", ") + std::string(info(dtype).name);
  fail(op, ": `out_dtype` ", dtype_name(*wanted), " is not offered", operands == nullptr ? "" : " for operands of ",
       operands == nullptr ? "" : operands, "; offered are ", names);
}

// What happens to the sums; the problem's sizes and its output's dtype are there.
inline void check_epilogue(const ProductArguments& arguments, const TensorView& a, Problem& problem) {
  problem.epilogue.activation = check_name(arguments.op, "activation", kActivations, arguments.activation).activation;
  problem.epilogue.slope = arguments.slope;
  if (!arguments.bias) return;
  const TensorView bias(*arguments.bias);
  check_bias(arguments.op, bias, a, problem.n, problem.out_dtype);
  bind_bias(problem.epilogue, bias);
}

inline Shape output_shape(const Problem& problem) {
  if (problem.has_batch) return {3, {problem.batch, problem.m, problem.n}};
  return {2, {problem.m, problem.n}};
}

// The rules of `out`; `problem` comes from the op's own check.
inline void check_out(const Problem& problem, const ProductArguments& arguments, const Tensor& out_tensor) {
  const char* op = arguments.op;
  check_given(op, "out", out_tensor);
  const TensorView out(out_tensor), a(arguments.a);
  check_out_tensor(op, out, a, problem.out_dtype, output_shape(problem));
  const ByteRange written = written_bytes(out_tensor, out, problem.out_dtype);
  const auto check = [&](const char* name, const Tensor& read, int element_bytes) {
    check_apart(op, written, name, TensorView(read).bytes(element_bytes));
  };
  check("a", arguments.a, info(problem.a.dtype).bytes);
  check("b", arguments.b, info(problem.b.dtype).bytes);
  const int scale_bytes = bytes_of(problem.b.scale.type);
  if (arguments.scale_a != nullptr) check("scale_a", *arguments.scale_a, scale_bytes);
  if (arguments.scale_b != nullptr) check("scale_b", *arguments.scale_b, scale_bytes);
  if (arguments.bias) check("bias", *arguments.bias, info(problem.epilogue.bias_dtype).bytes);
  if (arguments.global_scale) check("global_scale", *arguments.global_scale, sizeof(float));
}

// A fresh contiguous (m, n) or (batch, m, n) on a's device.
inline OwnedTensor new_output(const Problem& problem, const ProductArguments& arguments) {
  return allocate_owned(arguments.op, arguments.a, output_shape(problem), scalar_type(problem.out_dtype));
}

// A result without gaps, as allocate makes it.
inline Output packed_output(void* data, const Problem& problem) {
  const int64_t row = std::max<int64_t>(problem.n, 1);
  return {data, row, 1, problem.has_batch ? row * std::max<int64_t>(problem.m, 1) : 0};
}

// Where the result goes that new_output has made.
inline Output output_of_new(const OwnedTensor& out, const Problem& problem) {
  return packed_output(writable_data(out.get()), problem);
}

// ---- matmul ----

inline ProductArguments matmul_arguments(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                                         const std::string& activation, double slope,
                                         std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum) {
  return {"matmul", a, b, nullptr, nullptr, bias, kNoTensor, activation, slope, out_dtype, allow_tf32, fast_accum};
}

// What a product may be written as, by the dtype of `a`; the first is the default.
struct OfferedOutputs {
  DType operands;
  int count;
  DType outputs[3];
};

constexpr OfferedOutputs kOfferedOutputs[] = {
    {DType::kFloat16, 3, {DType::kFloat16, DType::kFloat32, DType::kBFloat16}},
    {DType::kBFloat16, 3, {DType::kBFloat16, DType::kFloat32, DType::kFloat16}},
    {DType::kFloat32, 3, {DType::kFloat32, DType::kFloat16, DType::kBFloat16}},
    {DType::kFloat64, 1, {DType::kFloat64}},
    {DType::kFloat8E4M3, 3, {DType::kFloat16, DType::kBFloat16, DType::kFloat32}},
    {DType::kFloat8E5M2, 3, {DType::kFloat16, DType::kBFloat16, DType::kFloat32}},
    {DType::kFloat4E2M1, 0, {}},  // only with scales: block_scaled_matmul
    {DType::kInt8, 0, {}},
};
static_assert(in_order_of(&OfferedOutputs::operands, kOfferedOutputs));

constexpr const OfferedOutputs& offered_outputs(DType dtype) { return kOfferedOutputs[static_cast<int>(dtype)]; }

constexpr bool offered_operands(DType a, DType b) {
  return (a == b && offered_outputs(a).count > 0) || (is_float8(a) && is_float8(b));
}

inline void check_operand_dtypes(const TensorView& a, const TensorView& b, Problem& problem) {
  const std::optional<DType> a_dtype = dtype_of(a.type());
  const std::optional<DType> b_dtype = dtype_of(b.type());
  if (a_dtype && b_dtype && offered_operands(*a_dtype, *b_dtype)) {
    problem.a.dtype = *a_dtype;
    problem.b.dtype = *b_dtype;
    return;
  }
  std::string offered;
  for (const DTypeInfo& a_row : kDTypes)
    for (const DTypeInfo& b_row : kDTypes)
      if (offered_operands(a_row.dtype, b_row.dtype))
        offered += (offered.empty() ? "" : ", ") + std::string(a_row.name) + " x " + std::string(b_row.name);
  fail("matmul: operands `a` x `b` of dtypes ", dtype_name(a.type()), " x ", dtype_name(b.type()),
       " are not offered; offered are ", offered);
}

// Every rule of the arguments but those of `out`. Fills the problem but for its output.
inline Problem check_matmul(const ProductArguments& arguments) {
  check_given("matmul", "a", arguments.a);
  check_given("matmul", "b", arguments.b);
  const TensorView a(arguments.a);
  const TensorView b(arguments.b);
  if (a.dims != 2 && a.dims != 3) fail("matmul: `a` must be 2-D (m, k) or 3-D (batch, m, k), got ", a.dims, "-D");
  if (b.dims != 2 && b.dims != 3) fail("matmul: `b` must be 2-D (k, n) or 3-D (batch, k, n), got ", b.dims, "-D");
  check_device("matmul", "b", b, "a", a);

  Problem problem;
  check_operand_dtypes(a, b, problem);
  const int64_t a_first = a.dims - 2;  // of the matrix's own two dimensions
  const int64_t b_first = b.dims - 2;
  problem.m = a.sizes[a_first];
  problem.k = a.sizes[a_first + 1];
  problem.n = b.sizes[b_first + 1];
  if (b.sizes[b_first] != problem.k)
    fail("matmul: `b` must have as many rows as `a` has columns, k = ", problem.k, ", got ", b.sizes[b_first]);
  const int64_t a_batch = a.dims == 3 ? a.sizes[0] : 1;
  const int64_t b_batch = b.dims == 3 ? b.sizes[0] : 1;
  if (a_batch != b_batch && a_batch != 1 && b_batch != 1)
    fail("matmul: the batches of `a` and `b` must be equal, or one of them 1, got ", a_batch, " and ", b_batch);
  problem.batch = a_batch == 1 ? b_batch : a_batch;
  problem.has_batch = a.dims == 3 || b.dims == 3;

  const OfferedOutputs& offered = offered_outputs(problem.a.dtype);
  problem.out_dtype = check_out_dtype(arguments.op, arguments.out_dtype, std::span(offered.outputs, offered.count),
                                      info(problem.a.dtype).name);
  problem.allow_tf32 = arguments.allow_tf32;
  problem.fast_accum = arguments.fast_accum;
  check_epilogue(arguments, a, problem);

  static_cast<Matrix&>(problem.a) = {a.data, a.strides[a_first], a.strides[a_first + 1],
                                     a_batch > 1 ? a.strides[0] : 0};
  static_cast<Matrix&>(problem.b) = {b.data, b.strides[b_first + 1], b.strides[b_first],
                                     b_batch > 1 ? b.strides[0] : 0};
  return problem;
}

// The rules of _matmul_with_preactivation, which is for gradients: through fp8 operands none flows.
inline Problem check_matmul_with_preactivation(const ProductArguments& arguments) {
  const Problem problem = check_matmul(arguments);
  if (is_float8(problem.a.dtype)) fail("matmul: the argument of the activation is not kept for fp8 operands");
  return problem;
}

// What an op of matmul's arguments does once they are checked, with what stands behind them: kRun(problem, arguments,
// others...).
template <auto kRun, typename... Others>
auto of_matmul(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
               double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum, Others... others) {
  const auto call = matmul_arguments(a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum);
  return kRun(check_matmul(call), call, others...);
}

}  // namespace tileon
