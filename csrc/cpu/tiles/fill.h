// Rows of operands made into rows of a tile. Of float32: for each 32 elements along k the 16 odd ones, then the 16 even
// ones, as decoding finds them, or all in their own order (TileOrder). Of words of 16 bits: in their own order. What a
// group has beyond k is 0.
#pragma once

#include "cpu/tiles/group_scales.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

enum class TileOrder { kPairs, kNatural };

// Pairs: what is decoded has them so, and bfloat16 is widened so in two operations.
inline TileOrder order_of(const Problem& problem) {
  const DType b = problem.b.dtype;
  return b == DType::kFloat16 || b == DType::kFloat32 ? TileOrder::kNatural : TileOrder::kPairs;
}

// ---- codes to float32 ----

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

#if TILEON_CPU_WIDTH == 16
// Looked up by the lowest four bits of each lane.
template <>
struct Codes<DType::kFloat4E2M1> {
  static constexpr float kFactor = 1;
  static constexpr bool kHasNaN = false;
  static IntVec load(const uint8_t* codes) {
    return (IntVec)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  static Floats odd(const IntVec& codes) { return looked_up(codes >> 4); }
  static Floats even(const IntVec& codes) { return looked_up(codes); }

 private:
  static Floats looked_up(const IntVec& codes) {
    const FloatVec values{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    return {(FloatVec)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)codes, (__m512)values)};
  }
};
#else
template <>
struct Codes<DType::kFloat4E2M1> {
  static constexpr float kFactor = 16384;
  static constexpr bool kHasNaN = false;
  static Words load(const uint8_t* codes) { return load_bytes_as_words(codes); }
  static Floats odd(const Words& words) { return halves_to_floats(shifted(words, 8, 3, 0x8e00)); }
  static Floats even(const Words& words) { return halves_to_floats(shifted(words, 12, 3, 0x8e00)); }
};
#endif

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
  __m512 factors = _mm512_set1_ps(scales[0]);
  if constexpr (kScaling == Scaling::kTwo) factors = _mm512_mask_mov_ps(factors, 0xff00, _mm512_set1_ps(scales[1]));
  lanes.part[0] *= (FloatVec)factors;
#else
  for (int p = 0; p < kParts; ++p) lanes.part[p] *= scales[kScaling == Scaling::kTwo ? p * 2 / kParts : 0];
#endif
  if constexpr (kScaling == Scaling::kFold)
    for (int p = 0; p < kParts; ++p) lanes.part[p] = lanes.part[p] + kFoldSteps - kFoldSteps;
}

// What becomes of the two vectors of a group: the lanes of float32, or words of bfloat16, which hold decoded elements
// exactly.
inline void store_group(const Floats& first, const Floats& second, float* to) {
  store(first, to);
  store(second, to + kLanes);
}

inline void store_group(const Floats& odd, const Floats& even, uint16_t* to) {
  for (int p = 0; p < kParts; ++p)
    *reinterpret_cast<BitsVec*>(to + p * kWidth * 2) =
        ((BitsVec)odd.part[p] & 0xffff0000u) | ((BitsVec)even.part[p] >> 16);
}

// Whether all codes were numbers.
template <DType kElement, Scaling kScaling, typename To>
bool decode_groups(const uint8_t* codes, const GroupScales& scales, int groups, To* to) {
  using Element = Codes<kElement>;
  Words largest{};
  for (int g = 0; g < groups; ++g, codes += kGroup / elements_per_byte(kElement), to += kGroup) {
    const auto words = Element::load(codes);
    Floats odd = Element::odd(words), even = Element::even(words);
    scale_lanes<kScaling>(scales.values[g], odd);
    scale_lanes<kScaling>(scales.values[g], even);
    store_group(odd, even, to);
    if constexpr (Element::kHasNaN) note_largest_bytes(words, largest);
  }
  return !Element::kHasNaN || !has_byte(largest, kE4M3NaN);
}

// The magnitudes of elements under scales: those of codes lie between 2^-16 and 2^16, and a factor between 1 and 2^14
// has gone into the scales.
inline Magnitudes decoded_magnitudes(const Magnitudes& of_scales) {
  const auto moved = [](uint32_t bits, int binades) {
    const int exponent = static_cast<int>(bits >> 23) + binades;
    return static_cast<uint32_t>(exponent < 0 ? 0 : exponent > 255 ? 255 : exponent) << 23;
  };
  return {of_scales.least == Magnitudes().least ? of_scales.least : moved(of_scales.least, -16 - 14),
          of_scales.most == 0 ? 0 : moved(of_scales.most, 16)};
}

// Rows of codes, each times its scale. The scales of all rows come first: those of one row alone would be waited for.
// False where a row is not of words of 16 bits, which take nothing but numbers under usual scales.
template <DType kElement, typename To>
bool decode_rows(const Operand& operand, const TilePart& part, To* to, Magnitudes* magnitudes) {
  GroupScales scales[kTileCols];
  PartBuffer<uint8_t> buffer;
  const AdjacentRows<uint8_t> codes = adjacent_codes<kElement>(operand, part, buffer);
  for (int r = 0; r < part.rows; ++r)
    fill_scales(operand.scale, part.row + r, part.k, part.count, Codes<kElement>::kFactor, scales[r]);
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(To)) / sizeof(To)) {
    const bool is_usual = scales[r].are_numbers() && with_scaling(operand.scale, [&](auto scaling) {
                            return decode_groups<kElement, scaling()>(codes.row[r], scales[r], part.groups(), to);
                          });
    if constexpr (std::is_same_v<To, float>) {
      if (!is_usual) decode_exactly(operand, part.row + r, part.k, part.count, to);
    } else {
      if (!is_usual || scales[r].is_long) return false;
      magnitudes->add(decoded_magnitudes(scales[r].magnitudes));
    }
  }
  return true;
}

// Calls use(element) with the operand's, as a type's value; false where it has no codes.
template <typename Use>
bool with_codes(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kFloat8E4M3:
      return use(std::integral_constant<DType, DType::kFloat8E4M3>());
    case DType::kFloat8E5M2:
      return use(std::integral_constant<DType, DType::kFloat8E5M2>());
    case DType::kFloat4E2M1:
      return use(std::integral_constant<DType, DType::kFloat4E2M1>());
    case DType::kInt8:
      return use(std::integral_constant<DType, DType::kInt8>());
    default:
      return false;
  }
}

// ---- rows of numbers ----

inline Floats widened_odd(const BitsVec (&pairs)[kParts]) {
  Floats floats;
  for (int p = 0; p < kParts; ++p) floats.part[p] = (FloatVec)(pairs[p] & 0xffff0000u);
  return floats;
}

inline Floats widened_even(const BitsVec (&pairs)[kParts]) {
  Floats floats;
  for (int p = 0; p < kParts; ++p) floats.part[p] = (FloatVec)(pairs[p] << 16);
  return floats;
}

// The two vectors that the lanes take of a group of numbers.
template <DType kElement>
struct Numbers;

template <>
struct Numbers<DType::kBFloat16> {
  using Unit = uint16_t;
  static void load(const Unit* from, Floats& first, Floats& second) {
    BitsVec pairs[kParts];
    for (int p = 0; p < kParts; ++p) pairs[p] = *reinterpret_cast<const LooseBitsVec*>(from + p * kWidth * 2);
    first = widened_odd(pairs);
    second = widened_even(pairs);
  }
};

template <>
struct Numbers<DType::kFloat16> {
  using Unit = uint16_t;
  static void load(const Unit* from, Floats& first, Floats& second) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(from);
    first = halves_to_floats(load_words(bytes));
    second = halves_to_floats(load_words(bytes + 2 * kLanes));
  }
};

template <>
struct Numbers<DType::kFloat32> {
  using Unit = uint32_t;
  static void load(const Unit* from, Floats& first, Floats& second) {
    for (int p = 0; p < kParts; ++p) {
      first.part[p] = (FloatVec) * reinterpret_cast<const LooseBitsVec*>(from + p * kWidth);
      second.part[p] = (FloatVec) * reinterpret_cast<const LooseBitsVec*>(from + kLanes + p * kWidth);
    }
  }
};

template <DType kElement>
void widen_rows(const Operand& operand, const TilePart& part, float* to) {
  using Element = Numbers<kElement>;
  PartBuffer<typename Element::Unit> buffer;
  const auto rows = adjacent_rows(operand, part, buffer);
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(float)) / sizeof(float))
    for (int g = 0; g < part.groups(); ++g) {
      Floats first, second;
      Element::load(rows.row[r] + g * kGroup, first, second);
      store_group(first, second, to + g * kGroup);
    }
}

// float16 in pairs, beside a decoded operand: first their odd ones, then the even ones.
inline void widen_pairs_of_float16(const Operand& operand, const TilePart& part, float* to) {
  PartBuffer<uint16_t> buffer;
  const auto rows = adjacent_rows(operand, part, buffer);
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(float)) / sizeof(float))
    for (int g = 0; g < part.groups(); ++g) {
      const uint16_t* from = rows.row[r] + g * kGroup;
      uint16_t parted[kGroup];
      for (int i = 0; i < kLanes; ++i) {
        parted[i] = from[2 * i + 1];
        parted[kLanes + i] = from[2 * i];
      }
      Floats first, second;
      Numbers<DType::kFloat16>::load(parted, first, second);
      store_group(first, second, to + g * kGroup);
    }
}

// ---- rows of a tile: false where the kind of tile cannot hold them ----

// float32: each element times its scale where it has one.
inline bool fill_tile(const Operand& operand, const TilePart& part, TileOrder order, float* to, Magnitudes*) {
  if (operand.dtype == DType::kBFloat16) return widen_rows<DType::kBFloat16>(operand, part, to), true;
  if (operand.dtype == DType::kFloat32) return widen_rows<DType::kFloat32>(operand, part, to), true;
  if (operand.dtype != DType::kFloat16)
    return with_codes(operand.dtype, [&](auto element) { return decode_rows<element()>(operand, part, to, nullptr); });
  if (order == TileOrder::kNatural)
    widen_rows<DType::kFloat16>(operand, part, to);
  else
    widen_pairs_of_float16(operand, part, to);
  return true;
}

// bfloat16, which holds codes exactly, under scales of a byte or under none; `magnitudes` gets those of the elements.
inline bool fill_tile(const Operand& operand, const TilePart& part, TileOrder, uint16_t* to, Magnitudes* magnitudes) {
  if (operand.dtype != DType::kBFloat16)
    return with_codes(operand.dtype,
                      [&](auto element) { return decode_rows<element()>(operand, part, to, magnitudes); });
  PartBuffer<uint16_t> buffer;
  const auto rows = adjacent_rows(operand, part, buffer);
  typedef uint16_t WordsVec __attribute__((vector_size(4 * kWidth), may_alias));
  typedef WordsVec LooseWordsVec __attribute__((aligned(2), may_alias));
  constexpr int kWords = 2 * kWidth;
  WordsVec most{}, least = most - 1;  // of the magnitudes, and of them less 1: zeros are the largest then
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(*to)) / sizeof(*to))
    for (int i = 0; i < part.groups() * kGroup; i += kWords) {
      const WordsVec words = *reinterpret_cast<const LooseWordsVec*>(rows.row[r] + i);
      const WordsVec magnitude = words & 0x7fff, less_1 = magnitude - 1;
      most = magnitude > most ? magnitude : most;
      least = less_1 < least ? less_1 : least;
      *reinterpret_cast<WordsVec*>(to + i) = words;
    }
  for (int i = 0; i < kWords; ++i) {
    const uint32_t magnitude = static_cast<uint32_t>(static_cast<uint16_t>(least[i] + 1)) << 16;
    magnitudes->add({magnitude == 0 ? Magnitudes().least : magnitude, static_cast<uint32_t>(most[i]) << 16});
  }
  return true;
}

// Codes of int8 as words of 16 bits.
inline bool fill_tile(const Operand& operand, const TilePart& part, TileOrder, int16_t* to, Magnitudes*) {
  PartBuffer<uint8_t> buffer;
  const auto codes = adjacent_codes<DType::kInt8>(operand, part, buffer);
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(*to)) / sizeof(*to))
    for (int i = 0; i < part.groups() * kGroup; ++i) to[i] = static_cast<int8_t>(codes.row[r][i]);
  return true;
}

inline bool fill_tile(const Operand& operand, const TilePart& part, TileOrder, double* to, Magnitudes*) {
  PartBuffer<uint64_t> buffer;
  const auto rows = adjacent_rows(operand, part, buffer);
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(*to)) / sizeof(*to))
    memcpy(to, rows.row[r], part.groups() * kGroup * sizeof(*to));
  return true;
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
