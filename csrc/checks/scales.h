// What the checks of the ops on block-scaled operands share: which dtypes hold elements and scales, the rules of a
// scale tensor's shape and of `global_scale`. `op` is the op's name.
#pragma once

#include "checks/operands.h"
#include "core/formats.h"

namespace tileon {

// ---- dtypes ----

// Of the tensors that hold elements or scales: the dtype that quantize makes, another one that is taken too (or the
// same), and both in words.
struct HeldAs {
  ScalarType made, other;
  const char* words;
};

constexpr HeldAs held_as(DType element) {
  if (element == DType::kFloat4E2M1)
    return {ScalarType::Byte, ScalarType::Float4_e2m1fn_x2, "uint8 or float4_e2m1fn_x2"};
  return {scalar_type(element), scalar_type(element), info(element).name};
}

constexpr HeldAs held_as(ScaleType scale) {
  if (scale == ScaleType::kE8M0) return {ScalarType::Float8_e8m0fnu, ScalarType::Byte, "float8_e8m0fnu or uint8"};
  return held_as(scale == ScaleType::kE4M3 ? DType::kFloat8E4M3 : DType::kFloat32);
}

// `what`: a DType, of elements, or a ScaleType.
template <typename What>
constexpr bool holds(ScalarType type, What what) {
  return type == held_as(what).made || type == held_as(what).other;
}

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

// ---- float32 scales: one for the whole operand, for each row, for each 128 elements of a row, or for each 128 x 128
// elements, the last of which may be fewer; the shape says which ----

// Of a shape of up to two dimensions, which has the strides that a scale's place is worked out by; nothing where the
// shape is none of those.
inline std::optional<ScaleStrides> float32_scale_strides(const TensorView& scale, DType element, int64_t rows,
                                                         int64_t k) {
  const auto has = [&](int64_t of_rows, int64_t of_k) {
    return scale.dims == 2 && scale.sizes[0] == of_rows && scale.sizes[1] == of_k;
  };
  const int64_t row_blocks = blocks_in(rows, kFloat32ScaleBlock), k_blocks = blocks_in(k, kFloat32ScaleBlock);
  if (scale.dims == 0 || (scale.dims == 1 && scale.sizes[0] == 1) || has(1, 1)) return flat_scales(0, 0);
  if (has(rows, 1)) return flat_scales(scale.strides[0], 0);
  if (element == DType::kInt8) return std::nullopt;
  if (has(rows, k_blocks)) return flat_scales(scale.strides[0], scale.strides[1]);
  if (has(row_blocks, k_blocks)) return row_block_scales(scale.strides[0], scale.strides[1]);
  return std::nullopt;
}

inline Scale check_float32_scale(const char* op, const char* name, const TensorView& scale, DType element, int64_t rows,
                                 int64_t k) {
  if (const auto strides = float32_scale_strides(scale, element, rows, k))
    return {scale.data, ScaleType::kFloat32, kFloat32ScaleBlock, *strides};
  const int64_t of_rows[] = {rows, 1}, k_blocks = blocks_in(k, kFloat32ScaleBlock);
  const int64_t of_spans[] = {rows, k_blocks}, of_blocks[] = {blocks_in(rows, kFloat32ScaleBlock), k_blocks};
  const bool has_blocks = element != DType::kInt8;
  std::ostringstream blocks;
  if (has_blocks)
    blocks << ", " << TupleText{of_spans, 2} << " for 1 x 128 elements, or " << TupleText{of_blocks, 2}
           << " for 128 x 128";
  fail(op, ": `", name, "` must have the shape (), (1,) or (1, 1) for the whole operand", has_blocks ? ", " : ", or ",
       TupleText{of_rows, 2}, " for each row", blocks.str(), ", got ", TupleText{scale.sizes, scale.dims});
}

// ---- global_scale ----

// One element, or one for each of the `rows` rows, on the device of the op's first argument, `like`. Fills the
// problem's part.
template <typename AnyProblem>
void check_global_scale(const char* op, const Tensor& tensor, const char* like_name, const TensorView& like,
                        int64_t rows, AnyProblem& problem) {
  const TensorView global_scale(tensor);
  check_device(op, "global_scale", global_scale, like_name, like);
  if (global_scale.type() != ScalarType::Float)
    fail(op, ": `global_scale` must be float32, got ", dtype_name(global_scale.type()));
  const bool is_one = global_scale.dims == 0 || (global_scale.dims == 1 && global_scale.sizes[0] == 1);
  const Shape of_rows{2, {rows, 1}};
  if (!is_one && !has_shape(global_scale, of_rows))
    fail(op, ": `global_scale` must be one element, 0-D or (1,), or one for each row, ", TupleText{of_rows.sizes, 2},
         ", got the shape ", TupleText{global_scale.sizes, global_scale.dims});
  problem.global_scale = static_cast<const float*>(global_scale.data);
  problem.global_scale_stride = global_scale.dims == 2 ? global_scale.strides[0] : 0;
}

}  // namespace tileon
