#include "cpu/tiles/waiting_scales.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "core/small_floats.h"
#include "cpu/multiversion.h"

namespace tileon {
namespace {

// What the sums of a row are multiplied by: its scale where that waits for them, as those of int8 codes all do, or the
// power of two of its fold.
double factor_of_sums(const Operand& operand, int64_t row, bool are_of_codes) {
  if (operand.scale.fold_powers != nullptr) return std::exp2(operand.scale.fold_powers[row]);
  if (!operand.scale.may_wait) return 1;
  const float scale = static_cast<const float*>(operand.scale.data)[operand.scale.strides.of_row(row)];
  return are_of_codes || waits_for_sums(operand.scale, bits_of(scale)) ? scale : 1;
}

TILEON_MULTIVERSION void scale_row(const float* sums, int count, double of_row, const double* of_cols, float* to) {
  for (int c = 0; c < count; ++c) to[c] = static_cast<float>(static_cast<double>(sums[c]) * of_row * of_cols[c]);
}

// Sums of codes are below 2^51: added to 1.5 x 2^52 as a double has it, such an integer is the double's mantissa, which
// vectors of every processor can do.
TILEON_MULTIVERSION void scale_row(const int64_t* sums, int count, double of_row, const double* of_cols, float* to) {
  constexpr double kBase = 6755399441055744.0;
  for (int c = 0; c < count; ++c) {
    const double sum = std::bit_cast<double>(std::bit_cast<int64_t>(kBase) + sums[c]) - kBase;
    to[c] = static_cast<float>(sum * of_row * of_cols[c]);
  }
}

template <typename Sum>
void scale_block(const Problem& problem, const TileBlock& block, const Sum* sums, float* to) {
  constexpr bool are_of_codes = std::is_integral_v<Sum>;
  std::array<double, std::max(kMaxBlockCols, kAmxCols)> of_cols;
  for (int c = 0; c < block.cols; ++c) of_cols[c] = factor_of_sums(problem.b, block.col + c, are_of_codes);
  for (int r = 0; r < block.rows; ++r, sums += block.sums_stride, to += block.sums_stride)
    scale_row(sums, block.cols, factor_of_sums(problem.a, block.row + r, are_of_codes), of_cols.data(), to);
}

// Magnitudes, as words without their signs, that are moderate; 0 is, too.
struct Bounds {
  uint16_t least, most;
};

bool is_beyond(uint16_t word, Bounds bounds) {
  const uint16_t magnitude = word & 0x7fff, less_1 = magnitude - 1;
  return magnitude > bounds.most || less_1 < static_cast<uint16_t>(bounds.least - 1);
}

TILEON_MULTIVERSION bool has_beyond(const uint16_t* words, int64_t count, Bounds bounds) {
  uint16_t found = 0;
  for (int64_t i = 0; i < count; ++i) found |= is_beyond(words[i], bounds) ? 1 : 0;
  return found != 0;
}

}  // namespace

bool has_factors(const Operand& operand) { return operand.scale.may_wait || operand.scale.fold_powers != nullptr; }

void scale_sums(const Problem& problem, const TileBlock& block, const float* sums, float* to) {
  scale_block(problem, block, sums, to);
}

void scale_sums(const Problem& problem, const TileBlock& block, const int64_t* sums, float* to) {
  scale_block(problem, block, sums, to);
}

bool is_row_moderate(const Operand& a, int64_t row, int64_t k) {
  constexpr Bounds kBfloat16{(127 - 60) << 7, (127 + 60) << 7}, kFloat16{1, 0x7bff};  // float16: all that are finite
  const Bounds bounds = a.dtype == DType::kFloat16 ? kFloat16 : kBfloat16;
  const auto* words = static_cast<const uint16_t*>(a.data) + row * a.stride_mn;
  if (a.stride_k == 1) return !has_beyond(words, k, bounds);
  for (int64_t i = 0; i < k; ++i)
    if (is_beyond(words[i * a.stride_k], bounds)) return false;
  return true;
}

}  // namespace tileon
