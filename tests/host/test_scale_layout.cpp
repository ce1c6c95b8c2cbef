// The packed layout of scales: every place of every block is some row's and column's, by the formula of cuBLASLt's and
// torch's documentation; and 2-D strides read as those of a 5-D tensor.
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <vector>

#include "core/formats.h"

namespace {

// ((row / 128) * column blocks + column / 4) * 512 + (row % 32) * 16 + (row % 128) / 32 * 4 + column % 4
int64_t documented_offset(int64_t row, int64_t col, int64_t cols) {
  const int64_t block = row / 128 * ((cols + 3) / 4) + col / 4;
  return block * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
}

int check_packed(int64_t rows, int64_t cols) {
  int failures = 0;
  const tileon::ScaleStrides strides = tileon::packed_scales(cols);
  const int64_t padded_rows = tileon::scale_row_blocks(rows) * 128, padded_cols = tileon::scale_col_blocks(cols) * 4;
  std::vector<int> seen(tileon::packed_scale_bytes(rows, cols));
  failures += static_cast<int64_t>(seen.size()) != padded_rows * padded_cols;
  failures += padded_rows < rows || padded_rows >= rows + 128 || padded_cols < cols || padded_cols >= cols + 4;
  for (int64_t row = 0; row < padded_rows; ++row)
    for (int64_t col = 0; col < padded_cols; ++col) {
      const int64_t offset = strides.offset(row, col);
      failures += offset != documented_offset(row, col, cols);
      failures += offset < 0 || offset >= static_cast<int64_t>(seen.size()) || seen[offset]++ != 0;
    }
  return failures;
}

int check_flat(int64_t stride_mn, int64_t stride_col) {
  int failures = 0;
  const tileon::ScaleStrides strides = tileon::flat_scales(stride_mn, stride_col);
  for (int64_t row = 0; row < 300; ++row)
    for (int64_t col = 0; col < 11; ++col) failures += strides.offset(row, col) != row * stride_mn + col * stride_col;
  return failures;
}

}  // namespace

int main() {
  int failures = 0;
  for (const int64_t rows : {0, 1, 31, 32, 127, 128, 129, 300})
    for (const int64_t cols : {0, 1, 3, 4, 5, 8, 13}) failures += check_packed(rows, cols);
  failures += check_flat(11, 1) + check_flat(1, 300) + check_flat(64, 3) + check_flat(0, 1) + check_flat(0, 0);
  const int64_t far_row = int64_t{1} << 34;  // beyond 32 bits
  failures += tileon::packed_scales(8).offset(far_row, 5) != documented_offset(far_row, 5, 8);
  std::printf("scale layout: %d failures\n", failures);
  return failures != 0;
}
