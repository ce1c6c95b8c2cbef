// What the checks of the ops on block-scaled operands share: which dtypes hold elements and scales, the rules of a
// scale tensor's shape and of `global_scale`. `op` is the op's name; a tensor's device is compared with that of `like`,
// the op's first argument, whose name is `like_name`.
#pragma once

#include "checks/operands.h"
#include "core/formats.h"

namespace tileon {

// ---- dtypes: the first is what quantize makes ----

constexpr bool holds(ScalarType type, DType element) {
  if (element == DType::kFloat8E4M3) return type == ScalarType::Float8_e4m3fn;
  if (element == DType::kInt8) return type == ScalarType::Char;
  return type == ScalarType::Byte || type == ScalarType::Float4_e2m1fn_x2;
}

constexpr bool holds(ScalarType type, ScaleType scale) {
  if (scale == ScaleType::kE4M3) return type == ScalarType::Float8_e4m3fn;
  if (scale == ScaleType::kFloat32) return type == ScalarType::Float;
  return type == ScalarType::Float8_e8m0fnu || type == ScalarType::Byte;
}

constexpr const char* dtypes_of(DType element) {
  if (element == DType::kInt8) return "int8";
  return element == DType::kFloat8E4M3 ? "float8_e4m3fn" : "uint8 or float4_e2m1fn_x2";
}

constexpr const char* dtypes_of(ScaleType scale) {
  if (scale == ScaleType::kFloat32) return "float32";
  return scale == ScaleType::kE4M3 ? "float8_e4m3fn" : "float8_e8m0fnu or uint8";
}

constexpr ScalarType made_dtype(DType element) {
  if (element == DType::kInt8) return ScalarType::Char;
  return element == DType::kFloat8E4M3 ? ScalarType::Float8_e4m3fn : ScalarType::Byte;
}

constexpr ScalarType made_dtype(ScaleType scale) {
  if (scale == ScaleType::kFloat32) return ScalarType::Float;
  return scale == ScaleType::kE4M3 ? ScalarType::Float8_e4m3fn : ScalarType::Float8_e8m0fnu;
}

static_assert(holds(made_dtype(DType::kFloat8E4M3), DType::kFloat8E4M3) &&
              holds(made_dtype(DType::kFloat4E2M1), DType::kFloat4E2M1) &&
              holds(made_dtype(DType::kInt8), DType::kInt8) &&
              holds(made_dtype(ScaleType::kFloat32), ScaleType::kFloat32) &&
              holds(made_dtype(ScaleType::kE4M3), ScaleType::kE4M3) &&
              holds(made_dtype(ScaleType::kE8M0), ScaleType::kE8M0));

// ---- scales ----

constexpr Shape packed_scale_shape(int64_t rows, int64_t cols) {
  return {5, {scale_row_blocks(rows), scale_col_blocks(cols), kScaleRowsApart, 4, kScaleBlockCols}};
}

inline void check_scale_dims(const char* op, const char* name, const TensorView& scale) {
  if (scale.dims != 2 && scale.dims != 5)
    fail(op, ": `", name, "` must be 2-D (rows, k / vec) or packed 5-D, got ", scale.dims, "-D");
}

// `scale` has 2 or 5 dimensions.
inline void check_scale_shape(const char* op, const char* name, const TensorView& scale, int64_t rows, int64_t cols) {
  const Shape flat{2, {rows, cols}};
  const Shape packed = packed_scale_shape(rows, cols);
  if (!has_shape(scale, scale.dims == 2 ? flat : packed))
    fail(op, ": `", name, "` must have the shape ", TupleText{flat.sizes, 2}, ", or ", TupleText{packed.sizes, 5},
         " packed, got ", TupleText{scale.sizes, scale.dims});
}

// Of 2-D or packed scales.
inline ScaleStrides scale_strides(const TensorView& scale) {
  const int64_t* strides = scale.strides;
  if (scale.dims == 2) return flat_scales(strides[0], strides[1]);
  return {strides[0], strides[1], strides[2], strides[3], strides[4]};
}

// ---- global_scale ----

// `rows`, where given: of the operand that may have a global scale for each of its rows.
inline void check_global_scale(const char* op, const TensorView& global_scale, const TensorView& like,
                               const char* like_name, std::optional<int64_t> rows = {}) {
  if (!global_scale.same_device(like))
    fail(op, ": `global_scale` must be on the device of `", like_name, "`, ", DeviceText{like}, ", got ",
         DeviceText{global_scale});
  if (global_scale.type() != ScalarType::Float)
    fail(op, ": `global_scale` must be float32, got ", dtype_name(global_scale.type()));
  if (rows && has_shape(global_scale, {2, {*rows, 1}})) return;
  const bool is_one = global_scale.dims == 0 || has_shape(global_scale, {1, {1}});
  if (!is_one && rows)
    fail(op, ": `global_scale` must be one element, 0-D or (1,), or one a row, (", *rows, ", 1), got the shape ",
         TupleText{global_scale.sizes, global_scale.dims});
  if (!is_one)
    fail(op, ": `global_scale` must be one element, 0-D or (1,), got the shape ",
         TupleText{global_scale.sizes, global_scale.dims});
}

// From row to row of a checked one: 0 where it is one element.
inline int64_t global_scale_stride(const TensorView& global_scale) {
  return global_scale.dims == 2 ? global_scale.strides[0] : 0;
}

}  // namespace tileon
