// A single row of `a`: rows of `b` are decoded and multiplied in registers, and never stored. The sums are those of
// tiles, bit by bit.
#pragma once

#include "cpu/scaled_tiles.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

constexpr int kRowCols = 4;  // rows of b at a time

// Rows of b, ready to be decoded.
struct DecodedRows {
  const uint8_t* codes[kRowCols];
  GroupScales scales[kRowCols];
  ChunkBuffer buffers[kRowCols];
};

// sums[c] += the row `a` of a tile times row c of `rows`. False, and no sum is changed, where a code is no number.
template <DType kElement, Scaling kScaling>
bool add_decoded_products(const DecodedRows& rows, const float* a, int groups, float* sums) {
  using Element = Codes<kElement>;
  constexpr int kGroupCodes = kGroup / elements_per_byte(kElement);
  FloatVec lanes[kRowCols][kParts];
#pragma GCC unroll 8
  for (int c = 0; c < kRowCols; ++c)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) lanes[c][p] = FloatVec{};
  Words largest{};
  for (int g = 0; g < groups; ++g, a += kGroup)
#pragma GCC unroll 8
    for (int c = 0; c < kRowCols; ++c) {
      const Words words = Element::load(rows.codes[c] + g * kGroupCodes);
      Floats odd = Element::odd(words), even = Element::even(words);
      scale_lanes<kScaling>(rows.scales[c].values[g], odd);
      scale_lanes<kScaling>(rows.scales[c].values[g], even);
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) {
        const FloatVec* at = reinterpret_cast<const FloatVec*>(a) + p;
        lanes[c][p] = fused(at[0], odd.part[p], lanes[c][p]);
        lanes[c][p] = fused(at[kParts], even.part[p], lanes[c][p]);
      }
      if constexpr (Element::kHasNaN) note_largest_bytes(words, largest);
    }
  if (Element::kHasNaN && has_byte(largest, kE4M3NaN)) return false;
  const Floats4 four = sum_quarters(sum_to_four<Floats4>(lanes[0]), sum_to_four<Floats4>(lanes[1]),
                                    sum_to_four<Floats4>(lanes[2]), sum_to_four<Floats4>(lanes[3]));
  for (int c = 0; c < kRowCols; ++c) sums[c] += four[c];
  return true;
}

// As add_decoded_products, of kRowCols rows of `b`.
template <DType kElement>
bool add_row_products(const Operand& b, const TilePart& part, const float* a, float* sums) {
  DecodedRows rows;
  bool is_usual = true;
  for (int c = 0; c < kRowCols; ++c) {
    is_usual &= fill_scales(b.scale, part.row + c, part.k, part.count, Codes<kElement>::kFactor, rows.scales[c]);
    rows.codes[c] = adjacent_codes<kElement>(b, part.row + c, part.k, part.count, rows.buffers[c]);
  }
  if (!is_usual) return false;
  return with_scaling(
      b.scale, [&](auto scaling) { return add_decoded_products<kElement, scaling()>(rows, a, part.groups(), sums); });
}

inline bool add_row_products(const Operand& b, const TilePart& part, const float* a, float* sums) {
  switch (b.dtype) {
    case DType::kFloat8E4M3:
      return add_row_products<DType::kFloat8E4M3>(b, part, a, sums);
    case DType::kFloat8E5M2:
      return add_row_products<DType::kFloat8E5M2>(b, part, a, sums);
    case DType::kFloat4E2M1:
      return add_row_products<DType::kFloat4E2M1>(b, part, a, sums);
    default:
      return add_row_products<DType::kInt8>(b, part, a, sums);
  }
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
