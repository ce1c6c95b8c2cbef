// The arguments of block_scaled_matmul -> Problem: its rules with their messages (see operands.h).
#pragma once

#include "checks/products.h"
#include "checks/scales.h"

namespace tileon {

namespace block_scaled {

constexpr const char* kOp = "block_scaled_matmul";

// The first is the default where both operands are scaled; a 16-bit `a` has its own dtype for a default.
constexpr DType kOutputs[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat8E4M3};
constexpr DType kBFloat16First[] = {DType::kBFloat16, DType::kFloat16, DType::kFloat32, DType::kFloat8E4M3};

// ---- dtypes ----

// What a dtype holds, as block_scaled_matmul reads it: codes with scales, or numbers of 16 bits without.
constexpr std::optional<DType> element_of(ScalarType type) {
  if (type == ScalarType::Half || type == ScalarType::BFloat16) return dtype_of(type);
  for (const DType element : {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat4E2M1, DType::kInt8})
    if (holds(type, element)) return element;
  return std::nullopt;
}

constexpr bool is_16_bits(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Of codes.
constexpr bool goes_with(DType element, ScaleType scale) {
  switch (scale) {
    case ScaleType::kE8M0:
      return element == DType::kFloat8E4M3 || element == DType::kFloat4E2M1;
    case ScaleType::kE4M3:
      return element == DType::kFloat4E2M1;
    case ScaleType::kFloat32:
      return is_float8(element) || element == DType::kInt8;
  }
  return false;
}

constexpr bool goes_with(DType a, DType b, ScaleType scale) {
  return goes_with(b, scale) && (is_16_bits(a) || goes_with(a, scale));
}

constexpr ScaleType kScaleTypes[] = {ScaleType::kE8M0, ScaleType::kE4M3, ScaleType::kFloat32};

constexpr bool offered(DType a, DType b) {
  if (is_16_bits(b) || (a == DType::kInt8) != (b == DType::kInt8 && !is_16_bits(a))) return false;
  for (const ScaleType scale : kScaleTypes)
    if (goes_with(a, b, scale)) return true;
  return false;
}
static_assert(offered(DType::kFloat8E4M3, DType::kFloat4E2M1) && offered(DType::kFloat8E5M2, DType::kFloat8E4M3) &&
              offered(DType::kBFloat16, DType::kInt8) && offered(DType::kInt8, DType::kInt8));
static_assert(!offered(DType::kFloat8E5M2, DType::kFloat4E2M1) && !offered(DType::kInt8, DType::kFloat8E4M3) &&
              !offered(DType::kFloat8E4M3, DType::kInt8) && !offered(DType::kBFloat16, DType::kBFloat16));

inline void check_elements(const TensorView& a, const TensorView& b) {
  const std::optional<DType> a_element = element_of(a.type()), b_element = element_of(b.type());
  if (a_element && b_element && offered(*a_element, *b_element)) return;
  fail(
      kOp, ": operands `a` x `b` of dtypes ", dtype_name(a.type()), " x ", dtype_name(b.type()),
      " are not offered; offered are float8_e4m3fn and fp4 (", held_as(DType::kFloat4E2M1).words,
      ") in every pairing, float8_e4m3fn and float8_e5m2 in every pairing, int8 x int8, and float16 or bfloat16 x any ",
      "of these");
}

// Both operands have scales of one type; `first` is a's, or b's where a has none.
inline ScaleType check_scale_types(const TensorView& a, const TensorView& b, const char* first_name,
                                   const TensorView& first, const TensorView& scale_b) {
  const DType a_element = *element_of(a.type()), b_element = *element_of(b.type());
  std::optional<ScaleType> type;
  for (const ScaleType scale : kScaleTypes)
    if (goes_with(a_element, b_element, scale) && holds(first.type(), scale)) type = scale;
  if (!type) {
    std::string names;
    for (const ScaleType scale : kScaleTypes)
      if (goes_with(a_element, b_element, scale))
        names += (names.empty() ? "" : ", or ") + std::string(held_as(scale).words);
    fail(kOp, ": `", first_name, "` must be ", names, " for operands `a` x `b` of dtypes ", dtype_name(a.type()), " x ",
         dtype_name(b.type()), ", got ", dtype_name(first.type()));
  }
  if (!holds(scale_b.type(), *type))
    fail(kOp, ": `scale_b` must be ", held_as(*type).words, " where `", first_name, "` is ", dtype_name(first.type()),
         ", got ", dtype_name(scale_b.type()));
  return *type;
}

// ---- operands ----

inline Operand operand_of(const TensorView& data, DType element, const Scale& scale) {
  return {{data.data, data.strides[0], data.strides[1], 0}, element, scale};
}

inline Operand operand_of(const TensorView& data, DType element, const TensorView& scale, ScaleType type) {
  return operand_of(data, element, {scale.data, type, vec_of(type), scale_strides(scale)});
}

// Scales of a byte for each `vec` elements, or float32 ones whose shape says how many elements share one.
inline Operand check_scaled_operand(const char* scale_name, const TensorView& data, const TensorView& scale,
                                    ScaleType type, int64_t rows, int64_t k) {
  const DType element = *element_of(data.type());
  if (type == ScaleType::kFloat32)
    return operand_of(data, element, check_float32_scale(kOp, scale_name, scale, element, rows, k));
  check_scale_dims(kOp, scale_name, scale);
  check_scale_shape(kOp, scale_name, scale, rows, k / vec_of(type));
  return operand_of(data, element, scale, type);
}

}  // namespace block_scaled

inline ProductArguments block_scaled_arguments(const Tensor& a, const Tensor& b, const std::optional<Tensor>& scale_a,
                                               const Tensor& scale_b, const std::optional<Tensor>& bias,
                                               const std::optional<Tensor>& global_scale, const std::string& activation,
                                               double slope, std::optional<ScalarType> out_dtype, bool fast_accum) {
  const Tensor* const of_a = scale_a ? &*scale_a : nullptr;
  return {block_scaled::kOp, a, b, of_a, &scale_b, bias, global_scale, activation, slope, out_dtype, false, fast_accum};
}

// Every rule of the arguments but those of `out`. Fills the problem but for its output.
inline Problem check_block_scaled(const ProductArguments& arguments) {
  using namespace block_scaled;
  check_given(kOp, "a", arguments.a);
  check_given(kOp, "b", arguments.b);
  check_given(kOp, "scale_b", *arguments.scale_b);
  const TensorView a(arguments.a);
  const TensorView b(arguments.b);
  const TensorView scale_b(*arguments.scale_b);
  const bool has_scale_a = arguments.scale_a != nullptr;
  const TensorView scale_a = has_scale_a ? TensorView(*arguments.scale_a) : scale_b;
  if (a.dims != 2) fail(kOp, ": `a` must be 2-D (m, k), got ", a.dims, "-D");
  if (b.dims != 2) fail(kOp, ": `b` must be 2-D (n, k), got ", b.dims, "-D");
  check_device(kOp, "b", b, "a", a);
  check_device(kOp, "scale_a", scale_a, "a", a);
  check_device(kOp, "scale_b", scale_b, "a", a);

  check_elements(a, b);
  Problem problem;
  const DType a_element = *element_of(a.type());
  const DType b_element = *element_of(b.type());
  if (has_scale_a && is_16_bits(a_element))
    fail(kOp, ": `scale_a` must be None where `a` is ", dtype_name(a.type()), ", which is multiplied as it is");
  if (!has_scale_a && !is_16_bits(a_element))
    fail(kOp, ": `scale_a` must be a tensor where `a` is ", dtype_name(a.type()), ", got None");
  problem.m = a.sizes[0];
  problem.n = b.sizes[0];
  problem.k = a.sizes[1] * elements_per_byte(a_element);
  const int64_t b_k = b.sizes[1] * elements_per_byte(b_element);
  if (b_k != problem.k) fail(kOp, ": `b` must have as many elements in a row as `a`, k = ", problem.k, ", got ", b_k);

  const ScaleType scale_type = check_scale_types(a, b, has_scale_a ? "scale_a" : "scale_b", scale_a, scale_b);
  const int vec = vec_of(scale_type);
  if (scale_type != ScaleType::kFloat32 && problem.k % vec != 0)
    fail(kOp, ": `a` and `b` must have a multiple of ", vec, " elements in a row, of which ", vec,
         " share a scale, got k = ", problem.k);
  problem.a = has_scale_a ? check_scaled_operand("scale_a", a, scale_a, scale_type, problem.m, problem.k)
                          : operand_of(a, a_element, Scale{});
  problem.b = check_scaled_operand("scale_b", b, scale_b, scale_type, problem.n, problem.k);

  if (arguments.global_scale) check_global_scale(kOp, *arguments.global_scale, "a", a, problem.m, problem);
  problem.out_dtype =
      check_out_dtype(kOp, arguments.out_dtype, a_element == DType::kBFloat16 ? kBFloat16First : kOutputs);
  problem.fast_accum = arguments.fast_accum;
  check_epilogue(arguments, a, problem);
  return problem;
}

// As of_matmul, of block_scaled_matmul's arguments.
template <auto kRun, typename... Others>
auto of_block_scaled(const Tensor& a, const Tensor& b, const std::optional<Tensor>& scale_a, const Tensor& scale_b,
                     const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                     const std::string& activation, double slope, std::optional<ScalarType> out_dtype, bool fast_accum,
                     Others... others) {
  const auto call =
      block_scaled_arguments(a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum);
  return kRun(check_block_scaled(call), call, others...);
}

}  // namespace tileon
