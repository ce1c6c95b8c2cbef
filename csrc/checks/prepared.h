// The rules of prepared weights (problem.h), with their messages (see operands.h).
#pragma once

#include "checks/scaled_products.h"

namespace tileon {

struct WeightToPrepare {
  Problem problem;  // of b alone: m is 0
  PreparedForm form;
};

inline WeightToPrepare check_prepare(const Tensor& b_tensor, const Tensor& scale_tensor, const std::string& form) {
  constexpr const char* kOp = "_prepare_block_scaled";
  check_given(kOp, "b", b_tensor);
  check_given(kOp, "scale_b", scale_tensor);
  const TensorView b(b_tensor), scale_b(scale_tensor);
  if (b.dims != 2) fail(kOp, ": `b` must be 2-D (n, k), got ", b.dims, "-D");
  check_scale_dims(kOp, "scale_b", scale_b);
  check_device(kOp, "scale_b", scale_b, "b", b);
  const std::optional<DType> element = block_scaled::element_of(b.type());
  if (!element || !block_scaled::goes_with(*element, ScaleType::kE8M0))
    fail(kOp, ": `b` must be ", held_as(DType::kFloat8E4M3).words, " or, for fp4, ", held_as(DType::kFloat4E2M1).words,
         ", got ", dtype_name(b.type()));
  const bool is_e8m0 = holds(scale_b.type(), ScaleType::kE8M0);
  if (!is_e8m0 && !(*element == DType::kFloat4E2M1 && holds(scale_b.type(), ScaleType::kE4M3)))
    fail(kOp, ": `scale_b` must be ", held_as(ScaleType::kE8M0).words, " or, of fp4, ", held_as(ScaleType::kE4M3).words,
         ", got ", dtype_name(scale_b.type()));
  Problem problem;
  problem.n = b.sizes[0];
  problem.k = b.sizes[1] * elements_per_byte(*element);
  const ScaleType scale_type = is_e8m0 ? ScaleType::kE8M0 : ScaleType::kE4M3;
  const int vec = vec_of(scale_type);
  if (problem.k % vec != 0)
    fail(kOp, ": `b` must have a multiple of ", vec, " elements in a row, of which ", vec,
         " share a scale, got k = ", problem.k);
  check_scale_shape(kOp, "scale_b", scale_b, problem.n, problem.k / vec);
  problem.b = block_scaled::operand_of(b, *element, scale_b, scale_type);
  problem.a = {{nullptr, 0, 1, 0}, *element, {nullptr, scale_type, vec, {}}};
  if (form != "int8" && form != "bfloat16") fail(kOp, ": `form` must be int8 or bfloat16, got \"", form, "\"");
  if (form == "int8" && !(*element == DType::kFloat4E2M1 && is_e8m0))
    fail(kOp, ": `form` int8 is offered for fp4 with ", held_as(ScaleType::kE8M0).words, " scales, got ",
         dtype_name(b.type()), " with ", dtype_name(scale_b.type()));
  return {problem, form == "int8" ? PreparedForm::kInt8 : PreparedForm::kBFloat16};
}

// Of the product that `problem` is, which comes from check_block_scaled.
inline PreparedWeight check_prepared(const Problem& problem, const Tensor& a, const Tensor& prepared) {
  constexpr const char* kOp = "_block_scaled_matmul_prepared";
  check_given(kOp, "prepared_b", prepared);
  const TensorView bytes(prepared);
  check_device(kOp, "prepared_b", bytes, "a", TensorView(a));
  if (bytes.type() != ScalarType::Byte || bytes.dims != 1 || (bytes.sizes[0] > 1 && bytes.strides[0] != 1))
    fail(kOp, ": `prepared_b` must be what _prepare_block_scaled returns, contiguous uint8 in one dimension");
  if (!problem.is_block_scaled())
    fail(kOp, ": `b` must be one of the operands of which _prepare_block_scaled prepares weights");
  const bool is_mxfp4 = problem.is_mxfp4();
  for (const PreparedForm form : {PreparedForm::kInt8, PreparedForm::kBFloat16}) {
    if (form == PreparedForm::kInt8 && !is_mxfp4) continue;
    if (PreparedLayout(form, problem.n, problem.k).bytes != bytes.sizes[0]) continue;
    if (reinterpret_cast<uintptr_t>(bytes.data) % PreparedLayout::kAlignment != 0)
      fail(kOp, ": `prepared_b` must begin at a multiple of ", PreparedLayout::kAlignment, " bytes");
    return {const_cast<void*>(bytes.data), form};
  }
  fail(kOp, ": `prepared_b` must be ",
       is_mxfp4 ? std::to_string(PreparedLayout(PreparedForm::kInt8, problem.n, problem.k).bytes) + " or " : "",
       PreparedLayout(PreparedForm::kBFloat16, problem.n, problem.k).bytes, " bytes long, prepared from `b`, got ",
       bytes.sizes[0]);
}

}  // namespace tileon
