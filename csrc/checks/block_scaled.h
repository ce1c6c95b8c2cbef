// block_scaled_matmul's arguments -> problem: its rules with their messages (see operands.h).
#pragma once

#include "checks/product.h"
#include "checks/scales.h"

namespace tileon {

namespace block_scaled {

constexpr const char* kOp = "block_scaled_matmul";

// The first is the default.
constexpr DType kOutputs[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat8E4M3};

constexpr std::optional<DType> element_of(ScalarType type) {
  for (const DType element : {DType::kFloat8E4M3, DType::kFloat4E2M1})
    if (holds(type, element)) return element;
  return std::nullopt;
}

inline void check_place(const char* name, const TensorView& tensor, const TensorView& a) {
  if (!tensor.same_device(a))
    fail(kOp, ": `", name, "` must be on the device of `a`, ", DeviceText{a}, ", got ", DeviceText{tensor});
}

inline void check_elements(const TensorView& a, const TensorView& b) {
  if (element_of(a.type()) && element_of(b.type())) return;
  fail(kOp, ": operands `a` x `b` of dtypes ", dtype_name(a.type()), " x ", dtype_name(b.type()),
       " are not offered; offered are, in every pairing, ", dtypes_of(DType::kFloat8E4M3), " and, for fp4, ",
       dtypes_of(DType::kFloat4E2M1));
}

// e8m0 scales go with every pairing of elements, e4m3 with fp4 alone; both operands have scales of one type.
inline ScaleType check_scale_types(const TensorView& scale_a, const TensorView& scale_b, bool both_fp4) {
  const bool is_e8m0 = holds(scale_a.type(), ScaleType::kE8M0);
  if (!is_e8m0 && !both_fp4)
    fail(kOp, ": `scale_a` must be ", dtypes_of(ScaleType::kE8M0), " where an operand is ",
         dtypes_of(DType::kFloat8E4M3), ", got ", dtype_name(scale_a.type()));
  if (!is_e8m0 && !holds(scale_a.type(), ScaleType::kE4M3))
    fail(kOp, ": `scale_a` must be ", dtypes_of(ScaleType::kE8M0), " (mxfp4), or ", dtypes_of(ScaleType::kE4M3),
         " (nvfp4), got ", dtype_name(scale_a.type()));
  const ScaleType type = is_e8m0 ? ScaleType::kE8M0 : ScaleType::kE4M3;
  if (!holds(scale_b.type(), type))
    fail(kOp, ": `scale_b` must be ", dtypes_of(type), " where `scale_a` is ", dtype_name(scale_a.type()), ", got ",
         dtype_name(scale_b.type()));
  return type;
}

inline Operand operand_of(const TensorView& data, DType element, const TensorView& scale, ScaleType scale_type) {
  const Scale scales{scale.data, scale_type, vec_of(scale_type), scale_strides(scale)};
  return {{data.data, data.strides[0], data.strides[1], 0}, element, scales};
}

}  // namespace block_scaled

inline ProductArguments block_scaled_arguments(const Tensor& a, const Tensor& b, const Tensor& scale_a,
                                               const Tensor& scale_b, const std::optional<Tensor>& bias,
                                               const std::optional<Tensor>& global_scale, const std::string& activation,
                                               double slope, std::optional<ScalarType> out_dtype, bool fast_accum) {
  return {block_scaled::kOp, a,          b,     &scale_a,  &scale_b, bias,
          global_scale,      activation, slope, out_dtype, false,    fast_accum};
}

// Every rule of the arguments but those of `out`. Fills the problem but for its output.
inline Problem check_block_scaled(const ProductArguments& arguments) {
  using namespace block_scaled;
  check_given(kOp, "a", arguments.a);
  check_given(kOp, "b", arguments.b);
  check_given(kOp, "scale_a", *arguments.scale_a);
  check_given(kOp, "scale_b", *arguments.scale_b);
  const TensorView a(arguments.a);
  const TensorView b(arguments.b);
  const TensorView scale_a(*arguments.scale_a);
  const TensorView scale_b(*arguments.scale_b);
  if (a.dims != 2) fail(kOp, ": `a` must be 2-D (m, k), got ", a.dims, "-D");
  if (b.dims != 2) fail(kOp, ": `b` must be 2-D (n, k), got ", b.dims, "-D");
  check_scale_dims(kOp, "scale_a", scale_a);
  check_scale_dims(kOp, "scale_b", scale_b);
  check_place("b", b, a);
  check_place("scale_a", scale_a, a);
  check_place("scale_b", scale_b, a);

  check_elements(a, b);
  Problem problem;
  const DType a_element = *element_of(a.type());
  const DType b_element = *element_of(b.type());
  problem.m = a.sizes[0];
  problem.n = b.sizes[0];
  problem.k = a.sizes[1] * elements_per_byte(a_element);
  const int64_t b_k = b.sizes[1] * elements_per_byte(b_element);
  if (b_k != problem.k) fail(kOp, ": `b` must have as many elements in a row as `a`, k = ", problem.k, ", got ", b_k);

  const bool both_fp4 = a_element == DType::kFloat4E2M1 && b_element == DType::kFloat4E2M1;
  const ScaleType scale_type = check_scale_types(scale_a, scale_b, both_fp4);
  const int vec = vec_of(scale_type);
  if (problem.k % vec != 0)
    fail(kOp, ": `a` and `b` must have a multiple of ", vec, " elements in a row, of which ", vec,
         " share a scale, got k = ", problem.k);
  check_scale_shape(kOp, "scale_a", scale_a, problem.m, problem.k / vec);
  check_scale_shape(kOp, "scale_b", scale_b, problem.n, problem.k / vec);
  problem.a = operand_of(a, a_element, scale_a, scale_type);
  problem.b = operand_of(b, b_element, scale_b, scale_type);

  if (arguments.global_scale) {
    const TensorView global_scale(*arguments.global_scale);
    check_global_scale(kOp, global_scale, a, "a");
    problem.global_scale = static_cast<const float*>(global_scale.data);
  }
  problem.out_dtype = check_out_dtype(kOp, arguments.out_dtype, kOutputs, "");
  problem.fast_accum = arguments.fast_accum;
  check_epilogue(arguments, a, problem);
  return problem;
}

}  // namespace tileon
