// The scales of rows of operands: two for each group, of its first and of its second 16 elements.
#pragma once

#include "cpu/tiles/adjacent_rows.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

struct GroupScales {
  float values[kChunk / kGroup][2];
  Magnitudes magnitudes;  // of the values
  bool is_long = false;   // a float32 scale, of up to 24 bits, goes with its elements

  bool are_numbers() const { return magnitudes.most < 0x7f800000u; }
};

// Scales [begin, begin + count) of a row as bytes, one after the other.
inline void gather_scales(const Scale& scale, int64_t row, int64_t begin, int count, uint8_t* to) {
  const ScaleStrides& strides = scale.strides;
  const uint8_t* from = static_cast<const uint8_t*>(scale.data) + strides.of_row(row);
  int i = 0;
  if (strides.col == 1 && begin % kScaleBlockCols == 0)
    for (; i + kScaleBlockCols <= count; i += kScaleBlockCols)
      memcpy(to + i, from + (begin + i) / kScaleBlockCols * strides.col_block, kScaleBlockCols);
  for (; i < count; ++i) to[i] = from[strides.of_col(begin + i)];
}

inline void note(Magnitudes& magnitudes, float value) {
  const uint32_t magnitude = bits_of(value) & 0x7fffffffu;
  magnitudes.most = magnitude > magnitudes.most ? magnitude : magnitudes.most;
  magnitudes.least = magnitude - 1 < magnitudes.least - 1 ? magnitude : magnitudes.least;  // 0 is the largest then
}

// Every scale times `factor`, twice where a group has but one.
template <typename Value>
void fill_from_bytes(const Value& value, const uint8_t* bytes, int count, int repeat, float factor,
                     GroupScales& scales) {
  float values[kChunk / kGroup * 2];
  Magnitudes magnitudes;
  for (int i = 0; i < count; ++i) {
    values[i] = value(bytes[i]) * factor;
    note(magnitudes, values[i]);
  }
  scales.magnitudes = magnitudes;
  if (repeat == 1)
    memcpy(scales.values, values, count * sizeof(float));
  else
    for (int i = 0; i < count; ++i) scales.values[i][0] = scales.values[i][1] = values[i];
}

inline void fill_from_floats(const Scale& scale, int64_t row, int64_t begin, int groups, float factor,
                             GroupScales& scales) {
  constexpr int kGroupsPerScale = kFloat32ScaleBlock / kGroup;
  const float* from = static_cast<const float*>(scale.data) + scale.strides.of_row(row);
  scales.magnitudes = {};
  scales.is_long = false;
  for (int g = 0; g < groups; g += kGroupsPerScale) {
    const float own = from[scale.strides.of_col((begin + g * kGroup) / kFloat32ScaleBlock)];
    const bool waits = waits_for_sums(scale, bits_of(own));
    const float value = waits ? factor : own * factor;
    scales.is_long |= !waits;
    for (int i = g; i < g + kGroupsPerScale && i < groups; ++i) scales.values[i][0] = scales.values[i][1] = value;
    note(scales.magnitudes, value);
  }
}

// The scales of elements [begin, begin + count) of a row, times `factor`; `factor` alone where there are none.
inline void fill_scales(const Scale& scale, int64_t row, int64_t begin, int count, float factor, GroupScales& scales) {
  const int groups = (count + kGroup - 1) / kGroup;
  if (scale.vec == 0) {
    for (int i = 0; i < groups; ++i) scales.values[i][0] = scales.values[i][1] = factor;
    scales.magnitudes = {bits_of(factor), bits_of(factor)};
    return;
  }
  if (scale.type == ScaleType::kFloat32) return fill_from_floats(scale, row, begin, groups, factor, scales);
  uint8_t bytes[kChunk / kGroup * 2] = {};
  gather_scales(scale, row, begin / scale.vec, (count + scale.vec - 1) / scale.vec, bytes);
  if (scale.type == ScaleType::kE4M3)
    return fill_from_bytes([](uint8_t byte) { return e4m3_value(byte); }, bytes, groups * 2, 1, factor, scales);
  if (scale.fold_powers == nullptr)
    return fill_from_bytes([](uint8_t byte) { return e8m0_value(byte); }, bytes, groups, 2, factor, scales);
  const int power = scale.fold_powers[row];
  return fill_from_bytes([power](uint8_t byte) { return fold_factor(byte, power); }, bytes, groups, 2, factor, scales);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
