// _epilogue_backward's arguments -> problem: its rules with their messages (see operands.h).
#pragma once

#include <torch/csrc/stable/ops.h>

#include "checks/operands.h"
#include "core/elementwise_problems.h"

namespace tileon {

struct EpilogueBackwardArguments {
  const Tensor& grad;
  const std::optional<Tensor>& saved;
  const std::string& activation;
  double slope;
  ScalarType out_dtype;
  std::optional<ScalarType> bias_dtype;
};

// Fills the problem but for its outputs; `saved` has to be contiguous where a kernel reads it.
inline EpilogueBackwardProblem check_epilogue_backward(const EpilogueBackwardArguments& arguments) {
  constexpr const char* kOp = "_epilogue_backward";
  check_given(kOp, "grad", arguments.grad);
  const TensorView grad(arguments.grad);
  if (grad.dims != 2 && grad.dims != 3)
    fail(kOp, ": `grad` must be 2-D (m, n) or 3-D (batch, m, n), got ", grad.dims, "-D");
  const auto wide_dtype = [&](const char* name, ScalarType type) {
    const std::optional<DType> dtype = dtype_of(type);
    if (!dtype || is_float8(*dtype))
      fail(kOp, ": `", name, "` must be float16, bfloat16, float32 or float64, got ", dtype_name(type));
    return *dtype;
  };
  EpilogueBackwardProblem problem;
  problem.grad_dtype = wide_dtype("grad", grad.type());
  problem.out_dtype = wide_dtype("out_dtype", arguments.out_dtype);
  problem.bias_dtype = arguments.bias_dtype ? wide_dtype("bias_dtype", *arguments.bias_dtype) : problem.out_dtype;
  if ((problem.grad_dtype == DType::kFloat64) != (problem.out_dtype == DType::kFloat64) ||
      (problem.bias_dtype == DType::kFloat64 && problem.grad_dtype != DType::kFloat64))
    fail(kOp, ": `grad` and `out_dtype` must be float64 both or neither, and `bias_dtype` only with them, got ",
         info(problem.grad_dtype).name, ", ", info(problem.out_dtype).name, " and ", info(problem.bias_dtype).name);
  problem.activation = check_name(kOp, "activation", kActivations, arguments.activation).activation;
  problem.slope = arguments.slope;
  if ((problem.activation != Activation::kNone) != arguments.saved.has_value())
    fail(kOp, ": `saved` must be there where there is an activation, and only there");

  const int64_t first = grad.dims - 2;
  problem.batch = grad.dims == 3 ? grad.sizes[0] : 1;
  problem.m = grad.sizes[first];
  problem.n = grad.sizes[first + 1];
  problem.grad = grad.data;
  problem.stride_batch = grad.dims == 3 ? grad.strides[0] : 0;
  problem.stride_m = grad.strides[first];
  problem.stride_n = grad.strides[first + 1];
  if (arguments.saved) {
    const TensorView saved(*arguments.saved);
    check_device(kOp, "saved", saved, "grad", grad);
    if (saved.dtype != grad.dtype)
      fail(kOp, ": `saved` must have the dtype of `grad`, ", dtype_name(grad.type()), ", got ",
           dtype_name(saved.type()));
    if (!has_shape(saved, shape_of(arguments.grad)))
      fail(kOp, ": `saved` must have the shape of `grad`, ", TupleText{grad.sizes, grad.dims}, ", got ",
           TupleText{saved.sizes, saved.dims});
  }
  return problem;
}

// Fresh outputs: grad_z in grad's shape, and grad_bias, without elements where nobody wants it.
struct EpilogueGradients {
  Tensor grad_z;
  Tensor grad_bias;
  std::optional<Tensor> saved;  // contiguous: what the problem reads
};

// Binds what has to be allocated, and read as long as the problem is.
inline EpilogueGradients bind_outputs(EpilogueBackwardProblem& problem, const EpilogueBackwardArguments& arguments) {
  constexpr const char* kOp = "_epilogue_backward";
  const bool wants_bias = arguments.bias_dtype.has_value();
  EpilogueGradients out{allocate(kOp, arguments.grad, shape_of(arguments.grad), arguments.out_dtype),
                        allocate(kOp, arguments.grad, {1, {wants_bias ? problem.n : 0}},
                                 wants_bias ? *arguments.bias_dtype : arguments.out_dtype),
                        std::nullopt};
  if (arguments.saved) {
    out.saved = made_contiguous(*arguments.saved);
    problem.saved = out.saved->const_data_ptr();
  }
  problem.grad_z = out.grad_z.mutable_data_ptr();
  if (wants_bias) problem.grad_bias = out.grad_bias.mutable_data_ptr();
  return out;
}

}  // namespace tileon
