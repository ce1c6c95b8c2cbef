// The dtypes that a kernel can read or write; the block-scaled formats: what an element is, what a scale is, which
// elements share one; and the only C++ definition of how scales lie in memory.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tileon {

// ---- dtypes ----

enum class DType : int8_t { kFloat16, kBFloat16, kFloat32, kFloat64, kFloat8E4M3, kFloat8E5M2, kFloat4E2M1, kInt8 };

struct DTypeInfo {
  DType dtype;
  const char* name;  // torch's name
  int bytes;         // of e2m1, those of a pair: the even k in the low half
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kFloat32, "float32", 4},
    {DType::kFloat64, "float64", 8},
    {DType::kFloat8E4M3, "float8_e4m3fn", 1},
    {DType::kFloat8E5M2, "float8_e5m2", 1},
    {DType::kFloat4E2M1, "float4_e2m1fn_x2", 1},
    {DType::kInt8, "int8", 1},
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }

constexpr bool is_float8(DType dtype) { return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2; }

// Whether the rows of a table stand in the order of the enum that `key` is of, as a look-up by number takes them to.
template <typename Row, int kCount, typename Enum>
constexpr bool in_order_of(Enum Row::* key, const Row (&rows)[kCount]) {
  for (int i = 0; i < kCount; ++i)
    if (static_cast<int>(rows[i].*key) != i) return false;
  return true;
}
static_assert(in_order_of(&DTypeInfo::dtype, kDTypes));

// ---- block-scaled formats ----

enum class ScaleType : int8_t { kE8M0, kE4M3, kFloat32 };

// Of one operand; a product of two different mx operands is called mixed.
enum class Format : int8_t {
  kMxfp8,
  kMxfp4,
  kNvfp4,
  kFp8Tensor,  // from here on scales are float32, and blocks may be short at the ends of rows and columns
  kFp8Row,
  kFp8Block1x128,
  kFp8Block128x128,
  kInt8Row,
  kInt8Tensor,
};

struct FormatInfo {
  Format format;
  const char* name;  // as the ops take it
  DType dtype;       // of its elements: kFloat8E4M3, kFloat4E2M1 or kInt8
  ScaleType scale;
  int vec;       // elements along k that share a scale; 0: all of them
  int rows = 1;  // rows that share a scale; 0: all of them
};

constexpr FormatInfo kFormats[] = {
    {Format::kMxfp8, "mxfp8", DType::kFloat8E4M3, ScaleType::kE8M0, 32},
    {Format::kMxfp4, "mxfp4", DType::kFloat4E2M1, ScaleType::kE8M0, 32},
    {Format::kNvfp4, "nvfp4", DType::kFloat4E2M1, ScaleType::kE4M3, 16},
    {Format::kFp8Tensor, "fp8_tensor", DType::kFloat8E4M3, ScaleType::kFloat32, 0, 0},
    {Format::kFp8Row, "fp8_row", DType::kFloat8E4M3, ScaleType::kFloat32, 0},
    {Format::kFp8Block1x128, "fp8_1x128", DType::kFloat8E4M3, ScaleType::kFloat32, 128},
    {Format::kFp8Block128x128, "fp8_128x128", DType::kFloat8E4M3, ScaleType::kFloat32, 128, 128},
    {Format::kInt8Row, "int8_row", DType::kInt8, ScaleType::kFloat32, 0},
    {Format::kInt8Tensor, "int8_tensor", DType::kInt8, ScaleType::kFloat32, 0, 0},
};

constexpr const FormatInfo& info(Format format) { return kFormats[static_cast<int>(format)]; }

static_assert(in_order_of(&FormatInfo::format, kFormats));

// Scales of one byte, which quantize packs; float32 scales are (rows of blocks, columns of blocks).
constexpr bool has_packed_scales(Format format) { return info(format).scale != ScaleType::kFloat32; }

// How many blocks of `block` there are in `size`, the last one perhaps short; one where a block is all.
constexpr int64_t blocks_in(int64_t size, int block) { return block == 0 ? 1 : (size + block - 1) / block; }
static_assert(blocks_in(0, 0) == 1 && blocks_in(0, 128) == 0 && blocks_in(129, 128) == 2 && blocks_in(9, 1) == 9);

// Rows and elements along k of a block that has a float32 scale of its own, where not the whole row or tensor has one.
constexpr int kFloat32ScaleBlock = 128;

// Elements along k that share a scale. Scales of a whole row or tensor are read as those of such blocks, again and
// again.
constexpr int vec_of(ScaleType scale) {
  if (scale == ScaleType::kFloat32) return kFloat32ScaleBlock;
  return info(scale == ScaleType::kE8M0 ? Format::kMxfp8 : Format::kNvfp4).vec;
}
static_assert(info(Format::kMxfp8).vec == info(Format::kMxfp4).vec, "mixed products read both with one vec");

constexpr int bytes_of(ScaleType scale) { return scale == ScaleType::kFloat32 ? 4 : 1; }

TILEON_HOST_DEVICE constexpr int elements_per_byte(DType element) { return element == DType::kFloat4E2M1 ? 2 : 1; }

// ---- scales in memory ----
//
// One scale for every `vec` elements along k. They come as (rows, cols) or packed in blocks of 128 rows x 4 columns,
// (ceil(rows / 128), ceil(cols / 4), 32, 4, 4): the order in which Blackwell's tensor cores, cuBLASLt, CUTLASS and
// torch (SWIZZLE_32_4_4) read them. Element [i, j, r, q, c] is row i 128 + q 32 + r, column j 4 + c.

constexpr int kScaleBlockRows = 128;
constexpr int kScaleBlockCols = 4;
constexpr int kScaleRowsApart = 32;  // rows that follow each other in a block lie in different quarters of it
constexpr int kScaleBlockBytes = kScaleBlockRows * kScaleBlockCols;

TILEON_HOST_DEVICE constexpr int64_t scale_row_blocks(int64_t rows) {
  return (rows + kScaleBlockRows - 1) / kScaleBlockRows;
}
TILEON_HOST_DEVICE constexpr int64_t scale_col_blocks(int64_t cols) {
  return (cols + kScaleBlockCols - 1) / kScaleBlockCols;
}

// Strides, in scales, of the five dimensions; (rows, cols) has such strides too, so that one formula reads both.
struct ScaleStrides {
  int64_t row_block, col_block;  // i, j
  int64_t row, quarter, col;     // r, q, c

  // The part of an offset that the row decides, and the part that the column does.
  TILEON_HOST_DEVICE constexpr int64_t of_row(int64_t m) const {
    return m / kScaleBlockRows * row_block + m % kScaleRowsApart * row +
           m % kScaleBlockRows / kScaleRowsApart * quarter;
  }
  TILEON_HOST_DEVICE constexpr int64_t of_col(int64_t s) const {
    return s / kScaleBlockCols * col_block + s % kScaleBlockCols * col;
  }
  TILEON_HOST_DEVICE constexpr int64_t offset(int64_t m, int64_t s) const { return of_row(m) + of_col(s); }

  constexpr bool operator==(const ScaleStrides&) const = default;
};

constexpr ScaleStrides flat_scales(int64_t stride_row, int64_t stride_col) {
  return {kScaleBlockRows * stride_row, kScaleBlockCols * stride_col, stride_row, kScaleRowsApart * stride_row,
          stride_col};
}

// Of float32 scales of blocks of 128 rows.
constexpr ScaleStrides row_block_scales(int64_t stride_row, int64_t stride_col) {
  return {stride_row, kScaleBlockCols * stride_col, 0, 0, stride_col};
}
static_assert(kScaleBlockRows == kFloat32ScaleBlock);

// Of a contiguous packed tensor of `cols` columns.
constexpr ScaleStrides packed_scales(int64_t cols) {
  return {scale_col_blocks(cols) * kScaleBlockBytes, kScaleBlockBytes, 16, 4, 1};
}

// Whether each block is contiguous, wherever the blocks are.
constexpr bool is_packed(const ScaleStrides& strides) {
  return strides.col == 1 && strides.quarter == 4 && strides.row == 16;
}

constexpr int64_t packed_scale_bytes(int64_t rows, int64_t cols) {
  return scale_row_blocks(rows) * scale_col_blocks(cols) * kScaleBlockBytes;
}

static_assert(packed_scale_bytes(0, 5) == 0 && packed_scale_bytes(129, 5) == 4 * 512);
static_assert(packed_scales(8).offset(0, 0) == 0 && packed_scales(8).offset(1, 0) == 16 &&
              packed_scales(8).offset(32, 0) == 4 && packed_scales(8).offset(0, 1) == 1 &&
              packed_scales(8).offset(0, 4) == 512 && packed_scales(8).offset(128, 0) == 1024 &&
              packed_scales(8).offset(127, 7) == 512 + 31 * 16 + 3 * 4 + 3);
static_assert(flat_scales(8, 1).offset(131, 6) == 131 * 8 + 6);
static_assert(row_block_scales(8, 1).offset(127, 6) == 6 && row_block_scales(8, 1).offset(257, 6) == 2 * 8 + 6);

}  // namespace tileon
