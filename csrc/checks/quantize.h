// The arguments of quantize, dequantize, pack_scales and unpack_scales -> problems and fresh outputs: their rules with
// their messages (see operands.h).
#pragma once

#include "checks/scales.h"
#include "core/elementwise_problems.h"

namespace tileon {

// ---- what quantize and dequantize share ----

// Of numbers, not of codes.
constexpr bool is_number_dtype(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Half || type == ScalarType::BFloat16;
}

inline void check_k(const char* op, const char* name, int64_t k, Format format) {
  const int vec = info(format).vec;
  if (has_packed_scales(format) && k % vec != 0)
    fail(op, ": `", name, "` must have a multiple of ", vec, " elements a row, as ", info(format).name,
         " has a scale for each ", vec, ", got k = ", k);
}

// For nvfp4 alone: the scales of the other formats reach every float32. Fills the problem's part.
template <typename AnyProblem>
void check_own_global_scale(const char* op, const std::optional<Tensor>& global_scale, const char* like_name,
                            const TensorView& like, AnyProblem& problem) {
  if (!global_scale) return;
  if (problem.format != Format::kNvfp4)
    fail(op, ": `global_scale` is for nvfp4 alone, got one for ", info(problem.format).name);
  check_global_scale(op, *global_scale, like_name, like, problem.rows, problem);
}

// ---- quantize ----

struct QuantizeArguments {
  const Tensor& x;
  const std::string& format;
  const std::optional<Tensor>& global_scale;
  const std::string& scale_rounding;
};

inline ScaleRounding check_scale_rounding(const std::string& name, Format format) {
  if (name == "floor") return ScaleRounding::kFloor;
  if (name != "rceil") fail("quantize: `scale_rounding` must be one of floor, rceil, got \"", name, "\"");
  if (info(format).scale != ScaleType::kE8M0)
    fail("quantize: `scale_rounding` must be floor for ", info(format).name, ", got \"", name, "\"");
  return ScaleRounding::kRceil;
}

// Every rule. Fills the problem but for its outputs.
inline QuantizeProblem check_quantize(const QuantizeArguments& arguments) {
  check_given("quantize", "x", arguments.x);
  const TensorView x(arguments.x);
  if (x.dims != 2) fail("quantize: `x` must be 2-D (rows, k), got ", x.dims, "-D");
  if (!is_number_dtype(x.type()))
    fail("quantize: `x` must be float32, float16 or bfloat16, got ", dtype_name(x.type()));
  QuantizeProblem problem;
  problem.format = check_name("quantize", "format", kFormats, arguments.format).format;
  problem.rows = x.sizes[0];
  problem.k = x.sizes[1];
  check_k("quantize", "x", problem.k, problem.format);
  check_own_global_scale("quantize", arguments.global_scale, "x", x, problem);
  problem.rounding = check_scale_rounding(arguments.scale_rounding, problem.format);
  problem.dtype = *dtype_of(x.type());
  problem.x = x.data;
  problem.stride_row = x.strides[0];
  problem.stride_k = x.strides[1];
  return problem;
}

// Every rule, in quantize's name. Fills the problem but for its outputs.
inline Nvfp4RowsProblem check_quantize_nvfp4_rows(const Tensor& x, const std::optional<Tensor>& global_scale) {
  Nvfp4RowsProblem problem;
  problem.quantize = check_quantize({x, info(Format::kNvfp4).name, std::nullopt, "floor"});
  if (global_scale) check_global_scale("quantize", *global_scale, "x", TensorView(x), problem.quantize.rows, problem);
  return problem;
}

struct Quantized {
  Tensor data, scale;
};

// Fresh outputs, which the problem then writes.
inline Quantized bind_outputs(QuantizeProblem& problem, const Tensor& x) {
  const FormatInfo& format = info(problem.format);
  const Shape scales = has_packed_scales(problem.format) ? packed_scale_shape(problem.rows, problem.cols())
                                                         : Shape{2, {problem.scale_rows(), problem.cols()}};
  Quantized out{allocate("quantize", x, {2, {problem.rows, problem.k / elements_per_byte(format.dtype)}},
                         held_as(format.dtype).made),
                allocate("quantize", x, scales, held_as(format.scale).made)};
  problem.data = static_cast<uint8_t*>(out.data.mutable_data_ptr());
  problem.scale = out.scale.mutable_data_ptr();
  return out;
}

struct QuantizedRows {
  Tensor data, scale, row_scales;
};

// The numbers that codes and packed scales stand for, in the dtype of x. Rows of nvfp4 are to be multiplied by
// `row_scales` besides, (rows, 1); of the other formats it has no element.
struct RoundedRows {
  Tensor numbers, row_scales;
};

// Whether numbers of the dtype of x hold what the format makes of them: a power of two times a short code, or a short
// code times another one.
constexpr bool has_numbers(Format format, DType x) { return x != DType::kFloat32 && has_packed_scales(format); }

// Fresh outputs, which the problem then writes.
inline RoundedRows bind_numbers(QuantizeProblem& problem, const Tensor& x) {
  const int64_t rows = problem.format == Format::kNvfp4 ? problem.rows : 0;
  RoundedRows out{allocate("quantize", x, {2, {problem.rows, problem.k}}, scalar_type(problem.dtype)),
                  allocate("quantize", x, {2, {rows, 1}}, ScalarType::Float)};
  problem.numbers = out.numbers.mutable_data_ptr();
  return out;
}

// Fresh outputs, which the problem then writes.
inline QuantizedRows bind_outputs(Nvfp4RowsProblem& problem, const Tensor& x) {
  const Quantized quantized = bind_outputs(problem.quantize, x);
  QuantizedRows out{quantized.data, quantized.scale,
                    allocate("quantize", x, {2, {problem.quantize.rows, 1}}, ScalarType::Float)};
  problem.row_scales = static_cast<float*>(out.row_scales.mutable_data_ptr());
  return out;
}

// ---- dequantize ----

struct DequantizeArguments {
  const Tensor& data;
  const Tensor& scale;
  const std::string& format;
  const std::optional<Tensor>& global_scale;
  std::optional<ScalarType> out_dtype;
};

inline void check_float32_scale_shape(const TensorView& scale, const DequantizeProblem& problem) {
  const FormatInfo& format = info(problem.format);
  const Shape wanted{2, {problem.scale_rows(), problem.cols()}};
  const bool of_tensor = format.rows == 0;
  if (has_shape(scale, wanted) || (of_tensor && (scale.dims == 0 || has_shape(scale, {1, {1}})))) return;
  if (of_tensor)
    fail("dequantize: `scale` must be one element, 0-D, (1,) or (1, 1), for ", format.name, ", got the shape ",
         TupleText{scale.sizes, scale.dims});
  fail("dequantize: `scale` must have the shape ", TupleText{wanted.sizes, 2}, " for ", format.name, ", got ",
       TupleText{scale.sizes, scale.dims});
}

// From block to block of a checked scale.
inline ScaleStrides float32_scale_strides(const TensorView& scale, Format format) {
  if (scale.dims != 2) return {};
  return flat_scales(info(format).rows == 0 ? 0 : scale.strides[0], info(format).vec == 0 ? 0 : scale.strides[1]);
}

// Every rule. Fills the problem but for its output.
inline DequantizeProblem check_dequantize(const DequantizeArguments& arguments) {
  check_given("dequantize", "data", arguments.data);
  check_given("dequantize", "scale", arguments.scale);
  const TensorView data(arguments.data);
  const TensorView scale(arguments.scale);
  if (data.dims != 2)
    fail("dequantize: `data` must be 2-D, (rows, k) or two elements in a byte (rows, k / 2), got ", data.dims, "-D");
  DequantizeProblem problem;
  problem.format = check_name("dequantize", "format", kFormats, arguments.format).format;
  const FormatInfo& format = info(problem.format);
  const bool packed = has_packed_scales(problem.format);
  if (packed) check_scale_dims("dequantize", "scale", scale);
  if (!holds(data.type(), format.dtype))
    fail("dequantize: `data` must be ", held_as(format.dtype).words, " for ", format.name, ", got ",
         dtype_name(data.type()));
  if (!holds(scale.type(), format.scale))
    fail("dequantize: `scale` must be ", held_as(format.scale).words, " for ", format.name, ", got ",
         dtype_name(scale.type()));
  problem.rows = data.sizes[0];
  problem.k = data.sizes[1] * elements_per_byte(format.dtype);
  check_k("dequantize", "data", problem.k, problem.format);
  check_device("dequantize", "scale", scale, "data", data);
  if (packed)
    check_scale_shape("dequantize", "scale", scale, problem.rows, problem.cols());
  else
    check_float32_scale_shape(scale, problem);
  check_own_global_scale("dequantize", arguments.global_scale, "data", data, problem);
  const ScalarType out_dtype = arguments.out_dtype.value_or(ScalarType::Float);
  if (!is_number_dtype(out_dtype))
    fail("dequantize: `out_dtype` must be float32, float16 or bfloat16, got ", dtype_name(out_dtype));
  problem.out_dtype = *dtype_of(out_dtype);
  problem.data = static_cast<const uint8_t*>(data.data);
  problem.stride_row = data.strides[0];
  problem.stride_k = data.strides[1];
  problem.scale = scale.data;
  problem.scale_strides = packed ? scale_strides(scale) : float32_scale_strides(scale, problem.format);
  return problem;
}

// A fresh output, which the problem then writes.
inline Tensor bind_output(DequantizeProblem& problem, const Tensor& data) {
  Tensor out = allocate("dequantize", data, {2, {problem.rows, problem.k}}, scalar_type(problem.out_dtype));
  problem.out = out.mutable_data_ptr();
  return out;
}

// ---- pack_scales, unpack_scales ----

inline void check_packable(const char* op, const char* name, const TensorView& scale) {
  if (!holds(scale.type(), ScaleType::kE8M0) && !holds(scale.type(), ScaleType::kE4M3))
    fail(op, ": `", name, "` must be float8_e8m0fnu, float8_e4m3fn or uint8, got ", dtype_name(scale.type()));
}

// Every rule. Fills the problem but for its output.
inline ScalePackProblem check_pack_scales(const Tensor& tensor) {
  check_given("pack_scales", "scale", tensor);
  const TensorView scale(tensor);
  if (scale.dims != 2) fail("pack_scales: `scale` must be 2-D (rows, columns), got ", scale.dims, "-D");
  check_packable("pack_scales", "scale", scale);
  ScalePackProblem problem;
  problem.rows = scale.sizes[0];
  problem.cols = scale.sizes[1];
  problem.from = static_cast<const uint8_t*>(scale.data);
  problem.from_strides = scale_strides(scale);
  problem.to_packed = true;
  return problem;
}

inline void check_extent(const char* name, int64_t wanted, int64_t held) {
  if (wanted < 0) fail("unpack_scales: `", name, "` must not be negative, got ", wanted);
  if (wanted > held)
    fail("unpack_scales: `", name, "` must be at most ", held, ", what the blocks of `packed` hold, got ", wanted);
}

// Every rule. Fills the problem but for its output.
inline ScalePackProblem check_unpack_scales(const Tensor& tensor, int64_t rows, int64_t cols) {
  check_given("unpack_scales", "packed", tensor);
  const TensorView packed(tensor);
  if (packed.dims != 5)
    fail("unpack_scales: `packed` must be 5-D (row blocks, column blocks, 32, 4, 4), got ", packed.dims, "-D");
  check_packable("unpack_scales", "packed", packed);
  const int64_t held_rows = packed.sizes[0] * kScaleBlockRows;
  const int64_t held_cols = packed.sizes[1] * kScaleBlockCols;
  if (!has_shape(packed, packed_scale_shape(held_rows, held_cols)))
    fail("unpack_scales: `packed` must have the shape (row blocks, column blocks, 32, 4, 4), got ",
         TupleText{packed.sizes, 5});
  check_extent("rows", rows, held_rows);
  check_extent("cols", cols, held_cols);
  ScalePackProblem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.from = static_cast<const uint8_t*>(packed.data);
  problem.from_strides = scale_strides(packed);
  problem.to_packed = false;
  return problem;
}

// A fresh output of the dtype of `from`, which the problem then writes.
inline Tensor bind_output(ScalePackProblem& problem, const Tensor& from) {
  const Shape shape =
      problem.to_packed ? packed_scale_shape(problem.rows, problem.cols) : Shape{2, {problem.rows, problem.cols}};
  Tensor out = allocate(problem.to_packed ? "pack_scales" : "unpack_scales", from, shape, TensorView(from).type());
  problem.to = static_cast<uint8_t*>(out.mutable_data_ptr());
  return out;
}

}  // namespace tileon
