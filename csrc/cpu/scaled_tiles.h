// Rows of operands made into rows of a tile. Of float32: for each 32 elements along k the 16 odd ones, then the 16 even
// ones, as decoding finds them. Of int8 products: words of 16 bits in their own order. What a group has beyond k is 0.
#pragma once

#include "cpu/scaled_lanes.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// ---- bytes, one after the other ----

// `count` units of kBytes bytes from `from`, `stride` units apart; where they are, or copied to `buffer`, which has
// place for a whole chunk: behind a last group that is not full it holds zeros.
template <int kBytes>
const uint8_t* adjacent(const uint8_t* from, int64_t stride, int count, int per_group, uint8_t* buffer) {
  const bool is_full = count % per_group == 0;
  if (stride == 1 && is_full) return from;
  if (stride == 1) {
    memcpy(buffer, from, count * kBytes);
  } else {
    for (int i = 0; i < count; ++i) memcpy(buffer + i * kBytes, from + i * stride * kBytes, kBytes);
  }
  if (!is_full) memset(buffer + count * kBytes, 0, (per_group - count % per_group) * kBytes);
  return buffer;
}

// Elements [k, k + count) of rows [row, row + rows): at most kTileCols rows and a chunk.
struct TilePart {
  int64_t row;
  int rows;
  int64_t k;
  int count;

  int groups() const { return (count + kGroup - 1) / kGroup; }
};

// Elements [k, k + count), in chunks.
struct TilePass {
  int64_t k, count;

  int chunk(int64_t begin) const { return static_cast<int>(count - begin < kChunk ? count - begin : kChunk); }
};

struct ChunkBuffer {
  alignas(kTileAlignment) uint8_t bytes[kChunk * 2];
};

// The codes of elements [begin, begin + count) of a row.
template <DType kElement>
const uint8_t* adjacent_codes(const Operand& operand, int64_t row, int64_t begin, int count, ChunkBuffer& buffer) {
  constexpr int kPerByte = elements_per_byte(kElement);
  const uint8_t* from =
      static_cast<const uint8_t*>(operand.data) + row * operand.stride_mn + begin / kPerByte * operand.stride_k;
  return adjacent<1>(from, operand.stride_k, count / kPerByte, kGroup / kPerByte, buffer.bytes);
}

inline const uint8_t* adjacent_words(const Operand& operand, int64_t row, int64_t begin, int count,
                                     ChunkBuffer& buffer) {
  const uint8_t* from =
      static_cast<const uint8_t*>(operand.data) + 2 * (row * operand.stride_mn + begin * operand.stride_k);
  return adjacent<2>(from, operand.stride_k, count, kGroup, buffer.bytes);
}

// ---- scales: two for each group, of its first and of its second 16 elements ----

struct GroupScales {
  float values[kChunk / kGroup][2];
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

// Every scale times `factor`, twice where a group has but one. False where one of them is no number then.
template <typename Value>
bool fill_from_bytes(const Value& value, const uint8_t* bytes, int count, int repeat, float factor,
                     GroupScales& scales) {
  float values[kChunk / kGroup * 2];
  uint32_t largest = 0;
  for (int i = 0; i < count; ++i) {
    values[i] = value(bytes[i]) * factor;
    const uint32_t magnitude = bits_of(values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (repeat == 1)
    memcpy(&scales, values, count * sizeof(float));
  else
    for (int i = 0; i < count; ++i) scales.values[i][0] = scales.values[i][1] = values[i];
  return largest < 0x7f800000u;
}

inline bool fill_from_floats(const Scale& scale, int64_t row, int64_t begin, int groups, float factor,
                             GroupScales& scales) {
  constexpr int kGroupsPerScale = kFloat32ScaleBlock / kGroup;
  const float* from = static_cast<const float*>(scale.data) + scale.strides.of_row(row);
  uint32_t largest = 0;
  for (int g = 0; g < groups; g += kGroupsPerScale) {
    const float value = from[scale.strides.of_col((begin + g * kGroup) / kFloat32ScaleBlock)] * factor;
    for (int i = g; i < g + kGroupsPerScale && i < groups; ++i) scales.values[i][0] = scales.values[i][1] = value;
    const uint32_t magnitude = bits_of(value) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest < 0x7f800000u;
}

// The scales of elements [begin, begin + count) of a row, times `factor`.
inline bool fill_scales(const Scale& scale, int64_t row, int64_t begin, int count, float factor, GroupScales& scales) {
  const int groups = (count + kGroup - 1) / kGroup;
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

// ---- codes to float32 ----

inline Words shifted(const Words& words, int left, int right, int mask) {
  Words result;
  for (int p = 0; p < kWordParts; ++p)
    result.part[p] =
        (words.part[p] << static_cast<int16_t>(left) >> static_cast<int16_t>(right)) & static_cast<int16_t>(mask);
  return result;
}

// What an element is, as halves or as integers: the odd and the even elements of a group.
template <DType kElement>
struct Codes;

template <>
struct Codes<DType::kFloat8E4M3> {
  static constexpr float kFactor = 256;  // between the biases of the exponents
  static constexpr bool kHasNaN = true;  // which is no NaN as a half
  static Words load(const uint8_t* codes) { return load_words(codes); }
  static Floats odd(const Words& words) { return halves_to_floats(shifted(words, 0, 1, 0xbf80)); }
  static Floats even(const Words& words) { return halves_to_floats(shifted(words, 8, 1, 0xbf80)); }
};

template <>
struct Codes<DType::kFloat8E5M2> {
  static constexpr float kFactor = 1;
  static constexpr bool kHasNaN = false;
  static Words load(const uint8_t* codes) { return load_words(codes); }
  static Floats odd(const Words& words) { return halves_to_floats(shifted(words, 0, 0, 0xff00)); }
  static Floats even(const Words& words) { return halves_to_floats(shifted(words, 8, 0, 0xff00)); }
};

template <>
struct Codes<DType::kFloat4E2M1> {
  static constexpr float kFactor = 16384;
  static constexpr bool kHasNaN = false;
  static Words load(const uint8_t* codes) { return load_bytes_as_words(codes); }
  static Floats odd(const Words& words) { return halves_to_floats(shifted(words, 8, 3, 0x8e00)); }
  static Floats even(const Words& words) { return halves_to_floats(shifted(words, 12, 3, 0x8e00)); }
};

template <>
struct Codes<DType::kInt8> {
  static constexpr float kFactor = 1;
  static constexpr bool kHasNaN = false;
  static Words load(const uint8_t* codes) { return load_words(codes); }
  static Floats odd(const Words& words) { return words_to_floats(shifted(words, 0, 8, 0xffff)); }
  static Floats even(const Words& words) { return words_to_floats(shifted(words, 8, 8, 0xffff)); }
};

// How the scales of an operand apply: one or two for each group; one, and the product is rounded (core/fold.h).
enum class Scaling { kOne, kTwo, kFold };

// Calls use(scaling) with the operand's, as a type's value.
template <typename Use>
auto with_scaling(const Scale& scale, const Use& use) {
  if (scale.type == ScaleType::kE4M3) return use(std::integral_constant<Scaling, Scaling::kTwo>());
  if (scale.fold_powers != nullptr) return use(std::integral_constant<Scaling, Scaling::kFold>());
  return use(std::integral_constant<Scaling, Scaling::kOne>());
}

// Half of the lanes are of the first 16 elements of a group, half of the second.
template <Scaling kScaling>
void scale_lanes(const float (&scales)[2], Floats& lanes) {
#if TILEON_CPU_WIDTH == 16
  FloatVec factors = FloatVec{} + scales[0];
  if constexpr (kScaling == Scaling::kTwo)
    factors = __builtin_shufflevector(factors, FloatVec{} + scales[1], 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29,
                                      30, 31);
  lanes.part[0] *= factors;
#else
  for (int p = 0; p < kParts; ++p) lanes.part[p] *= scales[kScaling == Scaling::kTwo ? p * 2 / kParts : 0];
#endif
  if constexpr (kScaling == Scaling::kFold)
    for (int p = 0; p < kParts; ++p) lanes.part[p] = lanes.part[p] + kFoldSteps - kFoldSteps;
}

// Whether all codes were numbers.
template <DType kElement, Scaling kScaling>
bool decode_groups(const uint8_t* codes, const GroupScales& scales, int groups, float* to) {
  using Element = Codes<kElement>;
  Words largest{};
  for (int g = 0; g < groups; ++g, codes += kGroup / elements_per_byte(kElement), to += kGroup) {
    const Words words = Element::load(codes);
    Floats odd = Element::odd(words), even = Element::even(words);
    scale_lanes<kScaling>(scales.values[g], odd);
    scale_lanes<kScaling>(scales.values[g], even);
    store(odd, to);
    store(even, to + kLanes);
    if constexpr (Element::kHasNaN) note_largest_bytes(words, largest);
  }
  return !Element::kHasNaN || !has_byte(largest, kE4M3NaN);
}

// The scales of all rows come first: those of one row alone would be waited for.
template <DType kElement>
void decode_rows(const Operand& operand, const TilePart& part, float* to) {
  GroupScales scales[kTileCols];
  bool is_usual[kTileCols];
  for (int r = 0; r < part.rows; ++r)
    is_usual[r] = fill_scales(operand.scale, part.row + r, part.k, part.count, Codes<kElement>::kFactor, scales[r]);
  for (int r = 0; r < part.rows; ++r, to += kTileRowBytes / sizeof(float)) {
    ChunkBuffer buffer;
    if (is_usual[r]) {
      const uint8_t* codes = adjacent_codes<kElement>(operand, part.row + r, part.k, part.count, buffer);
      is_usual[r] = with_scaling(operand.scale, [&](auto scaling) {
        return decode_groups<kElement, scaling()>(codes, scales[r], part.groups(), to);
      });
    }
    if (!is_usual[r]) decode_exactly(operand, part.row + r, part.k, part.count, to);
  }
}

// ---- rows of float16 and bfloat16 ----

inline void widen_bfloat16(const uint8_t* from, int groups, float* to) {
  for (int g = 0; g < groups; ++g, from += kGroup * 2, to += kGroup)
    for (int p = 0; p < kParts; ++p) {
      const BitsVec pairs = *reinterpret_cast<const LooseBitsVec*>(from + p * kWidth * 4);
      *reinterpret_cast<BitsVec*>(to + p * kWidth) = pairs & 0xffff0000u;
      *reinterpret_cast<BitsVec*>(to + kLanes + p * kWidth) = pairs << 16;
    }
}

inline void widen_float16(const uint8_t* from, int groups, float* to) {
  for (int g = 0; g < groups; ++g, from += kGroup * 2, to += kGroup) {
    int16_t pairs[kGroup], odd[kLanes], even[kLanes];
    memcpy(pairs, from, sizeof(pairs));
    for (int i = 0; i < kLanes; ++i) {
      odd[i] = pairs[2 * i + 1];
      even[i] = pairs[2 * i];
    }
    store(halves_to_floats(load_words(reinterpret_cast<const uint8_t*>(odd))), to);
    store(halves_to_floats(load_words(reinterpret_cast<const uint8_t*>(even))), to + kLanes);
  }
}

inline void widen_rows(const Operand& operand, const TilePart& part, float* to) {
  for (int r = 0; r < part.rows; ++r, to += kTileRowBytes / sizeof(float)) {
    ChunkBuffer buffer;
    const uint8_t* words = adjacent_words(operand, part.row + r, part.k, part.count, buffer);
    if (operand.dtype == DType::kBFloat16)
      widen_bfloat16(words, part.groups(), to);
    else
      widen_float16(words, part.groups(), to);
  }
}

// ---- rows of a tile ----

// Each element times its scale where it has one.
inline void fill_tile(const Operand& operand, const TilePart& part, float* to) {
  switch (operand.dtype) {
    case DType::kFloat8E4M3:
      return decode_rows<DType::kFloat8E4M3>(operand, part, to);
    case DType::kFloat8E5M2:
      return decode_rows<DType::kFloat8E5M2>(operand, part, to);
    case DType::kFloat4E2M1:
      return decode_rows<DType::kFloat4E2M1>(operand, part, to);
    case DType::kInt8:
      return decode_rows<DType::kInt8>(operand, part, to);
    default:
      return widen_rows(operand, part, to);
  }
}

// Codes of int8 as words of 16 bits.
inline void fill_tile(const Operand& operand, const TilePart& part, int16_t* to) {
  for (int r = 0; r < part.rows; ++r, to += kTileRowBytes / sizeof(int16_t)) {
    ChunkBuffer buffer;
    const uint8_t* codes = adjacent_codes<DType::kInt8>(operand, part.row + r, part.k, part.count, buffer);
    for (int i = 0; i < part.groups() * kGroup; ++i) to[i] = static_cast<int8_t>(codes[i]);
  }
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
