// What quantize, dequantize, the packing of scales, the gradient of the epilogue and the copy of an operand are asked
// for: plain structs, which cross from torch to the kernels. No torch header and no CUDA header here. All outputs are
// fresh and contiguous; inputs have any strides, 0 included.
#pragma once

#include <cstdint>

#include "core/block_quantize.h"
#include "core/epilogue.h"
#include "core/formats.h"
#include "core/problem.h"

namespace tileon {

struct QuantizeProblem {
  int64_t rows = 0;
  int64_t k = 0;  // where scales are packed, a multiple of the format's vec
  Format format = Format::kMxfp8;
  ScaleRounding rounding = ScaleRounding::kFloor;
  DType dtype = DType::kFloat32;  // of x: float32, float16 or bfloat16
  const void* x = nullptr;
  int64_t stride_row = 0;  // of x, in elements
  int64_t stride_k = 0;
  const float* global_scale = nullptr;  // null: 1; nvfp4 alone has one
  int64_t global_scale_stride = 0;      // from row to row; 0: one for all
  uint8_t* data = nullptr;              // [rows][k / elements per byte]
  // Packed, of packed_bytes(); the kernel writes the padding too, as 0. Or float32, [scale_rows()][cols()]
  void* scale = nullptr;
  // On a GPU, in place of data and packed scales: [rows][k] of the dtype of x, code times scale.
  void* numbers = nullptr;
  bool may_overlap = false;  // on a GPU: whether kernels may begin before the one in front of them has ended

  constexpr int64_t cols() const { return blocks_in(k, info(format).vec); }
  constexpr int64_t scale_rows() const { return blocks_in(rows, info(format).rows); }
  constexpr int64_t packed_bytes() const { return packed_scale_bytes(rows, cols()); }
};

// Rows in nvfp4, each with a global scale of its own: nvfp4_global_scale of its largest finite magnitude.
struct Nvfp4RowsProblem {
  QuantizeProblem quantize;             // of nvfp4; its global_scale is not looked at
  const float* global_scale = nullptr;  // null: 1; of what the rows will be multiplied by
  int64_t global_scale_stride = 0;      // from row to row; 0: one for all
  float* row_scales = nullptr;          // [rows]: the row's own times global_scale

  TILEON_HOST_DEVICE void store_row_scale(int64_t row, float own) const {
    row_scales[row] = global_scale == nullptr ? own : own * global_scale[row * global_scale_stride];
  }
};

struct DequantizeProblem {
  int64_t rows = 0;
  int64_t k = 0;  // where scales are packed, a multiple of the format's vec
  Format format = Format::kMxfp8;
  DType out_dtype = DType::kFloat32;  // float32, float16 or bfloat16
  const uint8_t* data = nullptr;
  int64_t stride_row = 0;  // of data, in bytes
  int64_t stride_k = 0;    // from byte to byte: of e2m1, from pair to pair
  const void* scale = nullptr;
  ScaleStrides scale_strides{};         // of float32, from block to block; 0 along what has one block
  const float* global_scale = nullptr;  // null: 1; nvfp4 alone has one
  int64_t global_scale_stride = 0;      // from row to row; 0: one for all
  void* out = nullptr;                  // [rows][k]

  constexpr int64_t cols() const { return blocks_in(k, info(format).vec); }
  constexpr int64_t scale_rows() const { return blocks_in(rows, info(format).rows); }
};

// Scales, a byte each, from one layout to the other.
struct ScalePackProblem {
  int64_t rows = 0;  // of the 2-D scales
  int64_t cols = 0;
  const uint8_t* from = nullptr;
  ScaleStrides from_strides{};
  uint8_t* to = nullptr;
  bool to_packed = true;  // `to` is packed, of packed_bytes(), padding written as 0; otherwise it is [rows][cols]

  constexpr int64_t packed_bytes() const { return packed_scale_bytes(rows, cols); }
};

// The copy of an operand: `rows` rows of `columns` elements, which begin at multiples of 16 bytes. Strides of the
// operand are in bytes, in the copy's terms; the copy's own are multiples of 16. The bytes behind a row, up to the next
// multiple of 16, are written too.
struct OperandCopyProblem {
  int64_t batch = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int element_bytes = 1;  // 1, 2, 4 or 8
  const uint8_t* from = nullptr;
  int64_t from_batch = 0;
  int64_t from_row = 0;
  int64_t from_column = 0;
  uint8_t* to = nullptr;
  int64_t to_batch = 0;
  int64_t to_row = 0;

  constexpr int64_t row_bytes() const { return columns * element_bytes; }
};

// An operand of a product with scales, of any encoding, as numbers: rows of `pitch` elements, a multiple of 16 bytes.
// The elements behind k, up to the next multiple of four, are 0.
struct OperandExpandProblem {
  Operand operand;
  int64_t rows = 0;
  int64_t k = 0;
  bool with_scales = true;            // element times scale in float32; else the elements alone
  DType out_dtype = DType::kFloat32;  // float16, bfloat16 or float32
  void* out = nullptr;
  int64_t pitch = 0;
  // A row may have a second part, `second` elements behind the first, in the row or behind all rows: of an `is_split`
  // operand what rounding left of the first part, else the numbers again. Where the first part is infinite or NaN the
  // second is 0.
  int64_t second = 0;  // 0: there is none
  bool is_split = false;
};

// The fold (core/fold.h) of an operand with e8m0 scales, whose rows begin at multiples of 16 bytes and whose codes are
// adjacent, as backends that copy codes leave them: rows of `pitch` bytes, a multiple of 16, and a float32 scale
// for each row.
struct OperandFoldProblem {
  Operand operand;
  int64_t rows = 0;
  int64_t k = 0;
  uint8_t* codes = nullptr;
  int64_t pitch = 0;
  float* scales = nullptr;
  // Whether of every 32 codes the words of four come in the order 0, 2, 4, 6, 1, 3, 5, 7: what wgmma reads beside codes
  // of e2m1 in registers (cuda/sm90/mainloop/fold_decoder.cuh).
  bool is_interleaved = false;
};

// What the fold of such an operand multiplies its codes by, without the codes: a byte for each block of 32
// (core/fold.h), a word for each 128 k of a row, [k / 128][stride], 0 behind k and for rows behind the last one; and a
// float32 scale for each row.
struct FoldFactorsProblem {
  Operand operand;
  int64_t rows = 0;
  int64_t k = 0;
  uint32_t* factors = nullptr;
  int64_t stride = 0;
  float* scales = nullptr;
};

// What sums are multiplied by along a dimension: one number for all, or one for each row or column.
struct SumScale {
  const float* data = nullptr;  // null: 1
  int64_t stride = 0;
};

// From float32 sums, [m][n], to a product: activation(global * (row * column * sum) + bias), rounded once more. A sum
// may be in two parts, the second one behind all first ones.
struct FinishProblem {
  int64_t m = 0;
  int64_t n = 0;
  const float* sums = nullptr;
  SumScale row, column, global;  // global: for each row
  Epilogue epilogue;
  DType out_dtype = DType::kFloat16;
  Output out;
  int64_t second = 0;  // elements from a sum to another one that belongs to it; 0: there is none
};

// With y = activation(z), z the product with its bias, and grad the gradient of y, for each of batch x m rows:
//   grad_z    = grad activation'(z), rounded once, and
//   grad_bias = the sum of all rows of grad activation'(z), in the accumulator's type.
struct EpilogueBackwardProblem {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  DType grad_dtype = DType::kFloat32;  // of grad and of saved
  DType out_dtype = DType::kFloat32;   // of grad_z
  DType bias_dtype = DType::kFloat32;  // of grad_bias
  const void* grad = nullptr;          // any strides, in elements; 0 where it is expanded
  int64_t stride_batch = 0;
  int64_t stride_m = 0;
  int64_t stride_n = 0;
  const void* saved =
      nullptr;             // [batch][m][n]: z, or y where that tells as much (epilogue.h); null without an activation
  void* grad_z = nullptr;  // [batch][m][n]
  void* grad_bias = nullptr;  // [n], or null where nobody wants it
  Activation activation = Activation::kNone;
  double slope = 0.01;

  TILEON_HOST_DEVICE int64_t rows() const { return batch * m; }
};

}  // namespace tileon
