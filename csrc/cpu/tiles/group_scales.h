// The scales of rows of operands: two for each group, of its first and of its second 16 elements.
#pragma once

#include "cpu/tiles/adjacent_rows.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

constexpr int kMostScales = kChunk / kGroup * 2;  // of a row's chunk

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
  if (strides.col == 1 && begin % kScaleBlockCols == 0 && count >= 4 * kScaleBlockCols) {  // in a register
    for (; i + 4 * kScaleBlockCols <= count; i += 4 * kScaleBlockCols) {
      uint32_t words[4];
      for (int j = 0; j < 4; ++j) memcpy(&words[j], from + ((begin + i) / kScaleBlockCols + j) * strides.col_block, 4);
      memcpy(to + i, words, sizeof(words));
    }
  }
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

// Every scale times `factor`, twice where groups have but one. Loops of a fixed length without a branch, which become a
// few vectors where they are not unrolled: there are as many scales as vectors of elements.
template <int kScales, typename Value>
void fill_from_bytes(const Value& value, const uint8_t (&bytes)[kMostScales], float factor, GroupScales& scales) {
  constexpr int kRepeat = kMostScales / kScales;
  float values[kScales];
#pragma GCC unroll 1
  for (int i = 0; i < kScales; ++i) values[i] = value(bytes[i]) * factor;
  uint32_t most = 0, least_less_1 = Magnitudes().least - 1;  // of 0 that is the largest
#pragma GCC unroll 1
  for (int i = 0; i < kScales; ++i) {
    const uint32_t magnitude = bits_of(values[i]) & 0x7fffffffu, less_1 = magnitude - 1;
    most = magnitude > most ? magnitude : most;
    least_less_1 = less_1 < least_less_1 ? less_1 : least_less_1;
  }
  scales.magnitudes = {least_less_1 + 1, most};
  float* to = &scales.values[0][0];
#pragma GCC unroll 1
  for (int i = 0; i < kMostScales; ++i) to[i] = values[i / kRepeat];
}

#if TILEON_CPU_WIDTH == 16
// The same by instructions: what the compiler makes of it stores parts of vectors that it then loads whole.

// Of the lanes of all vectors; 0 does not count as the least.
template <int kCount>
Magnitudes magnitudes_of(const FloatVec (&values)[kCount]) {
  BitsVec most{}, least_less_1 = BitsVec{} + (Magnitudes().least - 1);  // of 0 that is the largest
  for (const FloatVec& value : values) {
    const BitsVec magnitude = (BitsVec)value & 0x7fffffffu, less_1 = magnitude - 1;
    most = magnitude > most ? magnitude : most;
    least_less_1 = less_1 < least_less_1 ? less_1 : least_less_1;
  }
  const auto halve = [&](const BitsVec& other, const BitsVec& other_less_1) {
    most = other > most ? other : most;
    least_less_1 = other_less_1 < least_less_1 ? other_less_1 : least_less_1;
  };
#define TILEON_HALVE(...)                                 \
  halve(__builtin_shufflevector(most, most, __VA_ARGS__), \
        __builtin_shufflevector(least_less_1, least_less_1, __VA_ARGS__))
  TILEON_HALVE(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  TILEON_HALVE(4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  TILEON_HALVE(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  TILEON_HALVE(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#undef TILEON_HALVE
  return {least_less_1[0] + 1, most[0]};
}

inline void store_scales(const FloatVec& first, const FloatVec& second, GroupScales& scales) {
  memcpy(&scales.values[0][0], &first, sizeof(first));
  memcpy(&scales.values[kWidth / 2][0], &second, sizeof(second));
}

inline void fill_from_e8m0(const uint8_t (&bytes)[kMostScales], float factor, GroupScales& scales) {
  const __m512i exponents = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128((const __m128i*)bytes));
  const __m512i words =
      _mm512_mask_mov_epi32(_mm512_maskz_slli_epi32(0xffff, exponents, 23),
                            _mm512_testn_epi32_mask(exponents, exponents), _mm512_set1_epi32(1 << 22));
  const FloatVec values[1] = {(FloatVec)words * factor};
  scales.magnitudes = magnitudes_of(values);
  const FloatVec& of = values[0];
  store_scales(__builtin_shufflevector(of, of, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
               __builtin_shufflevector(of, of, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15), scales);
}

// Infinity for NaN: neither is a number.
inline void fill_from_e4m3(const uint8_t (&bytes)[kMostScales], float factor, GroupScales& scales) {
  FloatVec values[2];
  for (int i = 0; i < 2; ++i) {
    const Words words = load_bytes_as_words(bytes + i * kLanes);
    const FloatVec of_256th = halves_to_floats(shifted(words, 8, 1, 0xbf80)).part[0];
    const __m512i magnitudes = _mm512_maskz_cvtepi16_epi32(0xffff, (__m256i)shifted(words, 0, 0, 0x7f).part[0]);
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(magnitudes, _mm512_set1_epi32(0x7f));
    values[i] = (FloatVec)_mm512_mask_mov_ps(of_256th * (256 * factor), is_nan, _mm512_set1_ps(float_of(0x7f800000u)));
  }
  scales.magnitudes = magnitudes_of(values);
  store_scales(values[0], values[1], scales);
}
#endif

// As e8m0_value, but infinity for NaN: neither is a number.
inline float e8m0_value_or_infinity(uint32_t byte) { return float_of(byte == 0 ? 1u << 22 : byte << 23); }

inline void fill_from_floats(const Scale& scale, int64_t row, int64_t begin, int groups, float factor,
                             GroupScales& scales) {
  constexpr int kGroupsPerScale = kFloat32ScaleBlock / kGroup;
  const float* from = static_cast<const float*>(scale.data) + scale.strides.of_row(row);
  scales.magnitudes = {};
  if (scale.strides.col == 0) {  // one of the whole row
    scales.is_long = !waits_for_sums(scale, bits_of(*from));
    const float value = scales.is_long ? *from * factor : factor;
    float* to = &scales.values[0][0];
#pragma GCC unroll 1
    for (int i = 0; i < kMostScales; ++i) to[i] = value;
    return note(scales.magnitudes, value);
  }
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
  uint8_t bytes[kMostScales];
  const int scales_in_k = (count + scale.vec - 1) / scale.vec;
  gather_scales(scale, row, begin / scale.vec, scales_in_k, bytes);
  memset(bytes + scales_in_k, bytes[0], kMostScales - scales_in_k);  // of codes that are 0: no other magnitude
#if TILEON_CPU_WIDTH == 16
  if (scale.type == ScaleType::kE4M3) return fill_from_e4m3(bytes, factor, scales);
#endif
  if (scale.type == ScaleType::kE4M3)
    return fill_from_bytes<kMostScales>([](uint8_t byte) { return e4m3_value(byte); }, bytes, factor, scales);
  constexpr int kScales = kMostScales / 2;
#if TILEON_CPU_WIDTH == 16
  if (scale.fold_powers == nullptr) return fill_from_e8m0(bytes, factor, scales);
#endif
  if (scale.fold_powers == nullptr)
    return fill_from_bytes<kScales>([](uint8_t byte) { return e8m0_value_or_infinity(byte); }, bytes, factor, scales);
  const int power = scale.fold_powers[row];
  return fill_from_bytes<kScales>([power](uint8_t byte) { return fold_factor(byte, power); }, bytes, factor, scales);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
