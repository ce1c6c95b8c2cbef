// The arguments of a product, whichever op it is: what the rules of matmul.h and block_scaled.h end in alike.
#pragma once

#include "checks/operands.h"

namespace tileon {

inline const std::optional<Tensor> kNoTensor;

// What an op was called with. Scales and a global scale are block_scaled_matmul's, allow_tf32 is matmul's.
struct ProductArguments {
  const char* op;
  const Tensor& a;
  const Tensor& b;
  const Tensor* scale_a = nullptr;
  const Tensor* scale_b = nullptr;
  const std::optional<Tensor>& bias;
  const std::optional<Tensor>& global_scale = kNoTensor;
  const std::string& activation;
  double slope;
  std::optional<ScalarType> out_dtype;
  bool allow_tf32 = false;
  bool fast_accum = false;
};

// The output's dtype: one of `offered`, of which the first is the default. `operands` ends the sentence of a refusal.
template <typename Offered>
DType check_out_dtype(const char* op, std::optional<ScalarType> wanted, const Offered& offered,
                      const std::string& operands) {
  std::string names;
  for (const DType dtype : offered) {
    if (!wanted || scalar_type(dtype) == *wanted) return dtype;
    names += (names.empty() ? "" : ", ") + std::string(info(dtype).name);
  }
  fail(op, ": `out_dtype` ", dtype_name(*wanted), " is not offered", operands, "; offered are ", names);
}

// What happens to the sums; the problem's sizes and its output's dtype are there.
inline void check_epilogue(const ProductArguments& arguments, const TensorView& a, Problem& problem) {
  problem.epilogue.activation = check_activation(arguments.op, arguments.activation);
  problem.epilogue.slope = arguments.slope;
  if (!arguments.bias) return;
  const TensorView bias(*arguments.bias);
  check_bias(arguments.op, bias, a, problem.n, problem.out_dtype);
  bind_bias(problem.epilogue, bias);
}

// The result's shape: 2-D where both operands are.
inline Shape output_shape(const Problem& problem, const ProductArguments& arguments) {
  int64_t a_dims = 0, b_dims = 0;
  check_shim(aoti_torch_get_dim(arguments.a.get(), &a_dims));
  check_shim(aoti_torch_get_dim(arguments.b.get(), &b_dims));
  if (a_dims == 3 || b_dims == 3) return {3, {problem.batch, problem.m, problem.n}};
  return {2, {problem.m, problem.n}};
}

// The rules of `out`; `problem` comes from the op's own check.
inline void check_out(const Problem& problem, const ProductArguments& arguments, const Tensor& out_tensor) {
  const char* op = arguments.op;
  check_given(op, "out", out_tensor);
  const TensorView out(out_tensor), a(arguments.a);
  check_out_tensor(op, out, a, problem.out_dtype, output_shape(problem, arguments));
  const ByteRange written = written_bytes(out_tensor, out, problem.out_dtype);
  const auto check = [&](const char* name, const Tensor& read, int element_bytes) {
    check_apart(op, written, name, TensorView(read).bytes(element_bytes));
  };
  check("a", arguments.a, info(problem.a.dtype).bytes);
  check("b", arguments.b, info(problem.b.dtype).bytes);
  if (arguments.scale_a != nullptr) check("scale_a", *arguments.scale_a, 1);
  if (arguments.scale_b != nullptr) check("scale_b", *arguments.scale_b, 1);
  if (arguments.bias) check("bias", *arguments.bias, info(problem.epilogue.bias_dtype).bytes);
  if (arguments.global_scale) check("global_scale", *arguments.global_scale, sizeof(float));
}

// A fresh contiguous (m, n) or (batch, m, n) on a's device.
inline Tensor new_output(const Problem& problem, const ProductArguments& arguments) {
  return allocate(arguments.op, arguments.a, output_shape(problem, arguments), scalar_type(problem.out_dtype));
}

}  // namespace tileon
