// Rows of an operand as words of bfloat16, by AVX-512. Codes are looked up in tables that lie in registers, 64 codes of
// a byte or 32 of half a byte at a time; a scale that is a power of two is added to the exponents, one that waits for
// the sums is left out. Words are copied, or turned where columns are adjacent, and looked at.
#pragma once

#include "cpu/tiles/amx_tables.h"
#include "cpu/tiles/fill.h"
#include "cpu/tiles/square.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// ---- codes to words ----

inline __m512i loaded(const void* from) { return _mm512_load_si512(from); }

// What is added to a word's exponent, twice: numbers of four bytes are broadcast from memory at no other cost.
struct Binades {
  int32_t twice;

  Binades() = default;
  explicit Binades(int count) : twice(count * 128 * 65536 + (count * 128 & 0xffff)) {}

  int count() const { return twice >> 23; }
};

// Words times a power of two, but for those that are 0.
inline __m512i moved(__m512i words, __mmask32 is_number, const Binades& binades) {
  return _mm512_mask_add_epi16(words, is_number, words, _mm512_set1_epi32(binades.twice));
}

inline __m512i moved(__m512i words, const Binades& binades) {
  return moved(words, _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7fff)), binades);
}

// Bytes of a table, by the lower seven bits of each code.
inline __m512i looked_up(const uint8_t (&table)[128], __m512i codes) {
  return _mm512_permutex2var_epi8(loaded(table), codes, loaded(table + 64));
}

// 64 codes, the first 32 and the others.
template <DType kElement>
void decode_bytes(__m512i codes, const ByteTable& table, __m512i& first, __m512i& second) {
  // the halves of each 16 bytes go to `first` and to `second`
  codes = _mm512_maskz_permutexvar_epi64(0xff, _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), codes);
  __m512i high = looked_up(table.high, codes), low = looked_up(table.low, codes);
  if constexpr (kElement == DType::kInt8) {
    const __mmask64 is_negative = _mm512_movepi8_mask(codes);
    const __m512i others = _mm512_xor_si512(codes, _mm512_set1_epi8(-1));
    high = _mm512_mask_mov_epi8(high, is_negative, looked_up(kNegativeBytes.high, others));
    low = _mm512_mask_mov_epi8(low, is_negative, looked_up(kNegativeBytes.low, others));
  } else {
    high = _mm512_or_si512(high, _mm512_and_si512(codes, _mm512_set1_epi8(-128)));
  }
  first = _mm512_maskz_unpacklo_epi8(~__mmask64{}, low, high);
  second = _mm512_maskz_unpackhi_epi8(~__mmask64{}, low, high);
}

// Codes that no scale may be added to: NaN, and e5m2's infinity.
template <DType kElement>
__mmask64 special_codes(__m512i codes) {
  if (kElement == DType::kInt8) return 0;
  const __m512i least = _mm512_set1_epi8(static_cast<char>(kElement == DType::kFloat8E4M3 ? 0xff : 0xfc));
  return _mm512_cmpge_epu8_mask(_mm512_or_si512(codes, _mm512_set1_epi8(-128)), least);
}

// Whether all codes were numbers. binades: null, or what the scale of each group adds to the exponents.
template <DType kElement>
bool decode_bytes(const uint8_t* codes, const Binades* binades, int groups, uint16_t* to) {
  __mmask64 is_nan = 0;
  for (int g = 0; g < groups; g += 2, codes += 2 * kGroup, to += 2 * kGroup) {
    const bool is_last = g + 1 == groups;
    const __m512i bytes = _mm512_maskz_loadu_epi8(is_last ? ~__mmask64{} >> kGroup : ~__mmask64{}, codes);
    is_nan |= special_codes<kElement>(bytes);
    __m512i first, second;
    decode_bytes<kElement>(bytes, kByteTable<kElement>, first, second);
    if (binades != nullptr) first = moved(first, binades[g]), second = moved(second, binades[g + 1]);
    _mm512_store_si512(to, first);
    if (!is_last) _mm512_store_si512(to + kGroup, second);
  }
  return is_nan == 0;
}

// The table that a group's codes are looked up in, and what is left to be added to the exponents.
struct Fold {
  int table;
  Binades binades;
};

inline Fold fold_of(const Binades& scale) {
  const int table = kFoldAbove - scale.count();
  if (table < 0) return {0, Binades(-table)};
  return {table < kFoldTables ? table : kFoldTables - 1, Binades(0)};
}

// As the one above, of a folded row.
template <DType kElement>
bool decode_folded_bytes(const uint8_t* codes, const Binades* binades, int groups, uint16_t* to) {
  __mmask64 is_nan = 0;
  for (int g = 0; g < groups; ++g, codes += kGroup, to += kGroup) {
    const __m512i bytes = _mm512_maskz_loadu_epi8(~__mmask64{} >> kGroup, codes);
    is_nan |= special_codes<kElement>(bytes);
    const Fold fold = fold_of(binades[g]);
    __m512i first, second;
    decode_bytes<kElement>(bytes, kFoldedBytes<kElement>.of[fold.table], first, second);
    _mm512_store_si512(to, moved(first, fold.binades));
  }
  return is_nan == 0;
}

// Words of a table, by the lower five bits of each index.
inline __m512i looked_up(__m512i index, __m512i table) {
  return _mm512_maskz_permutexvar_epi16(~__mmask32{}, index, table);
}

// Bytes of two codes as words: the low half of a byte first, of which the upper bits are not to count.
inline __m512i halves_of_bytes(const uint8_t* codes) {
  const __m512i bytes = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  return _mm512_or_si512(bytes, (__m512i)((BitsVec)bytes << 12));
}

// The table itself is scaled: no code but 0 is 0 in it, or nothing is added.
inline void store_halves(const uint8_t* codes, const NibbleTable& table, const Binades& binades, uint16_t* to) {
  constexpr __mmask32 kIsNumber = 0xfefefefeu;
  _mm512_store_si512(to, looked_up(halves_of_bytes(codes), moved(loaded(table.words), kIsNumber, binades)));
}

inline void decode_halves(const uint8_t* codes, const Binades* binades, int groups, uint16_t* to) {
  for (int g = 0; g < groups; ++g, codes += kGroup / 2, to += kGroup) store_halves(codes, kNibbleTable, binades[g], to);
}

inline void decode_folded_halves(const uint8_t* codes, const Binades* binades, int groups, uint16_t* to) {
  for (int g = 0; g < groups; ++g, codes += kGroup / 2, to += kGroup) {
    const Fold fold = fold_of(binades[g]);
    store_halves(codes, kFoldedNibbles.of[fold.table], fold.binades, to);
  }
}

// e2m1 under a scale for each 16: a table of both scales' 16 products, the first's in its even words.
inline void decode_halves(const uint8_t* codes, const float (*scales)[2], int groups, uint16_t* to) {
  const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(kNibbleTable.words));
  const FloatVec values = (FloatVec)((BitsVec)_mm512_maskz_cvtepu16_epi32(0xffff, words) << 16);
  const __m512i is_second = _mm512_maskz_set1_epi16(0xffff0000u, 1);
  for (int g = 0; g < groups; ++g, codes += kGroup / 2, to += kGroup) {
    const BitsVec of_first = (BitsVec)(values * scales[g][0]), of_second = (BitsVec)(values * scales[g][1]);
    const __m512i table = (__m512i)(of_first >> 16 | (of_second & 0xffff0000u));
    const __m512i halves = _mm512_and_si512(halves_of_bytes(codes), _mm512_set1_epi16(15));
    const __m512i index = _mm512_or_si512(_mm512_add_epi16(halves, halves), is_second);
    _mm512_store_si512(to, looked_up(index, table));
  }
}

// ---- scales ----

// What e8m0 scales of a row, or what a fold leaves of them, add to the exponents of their groups. False where one is
// not of a usual size: codes, which lie between 2^-16 and 2^16, would not stay so (are_usual).
inline bool fill_binades(const Scale& scale, const TilePart& part, int row, Binades* binades) {
  constexpr int kFar = 40;
  const bool is_folded = scale.fold_powers != nullptr;
  alignas(16) uint8_t bytes[kChunk / kGroup] = {};
  gather_scales(scale, part.row + row, part.k / kGroup, part.groups(), bytes);
  const __m512i scales = _mm512_maskz_cvtepu8_epi32(0xffff, *reinterpret_cast<const __m128i*>(bytes));
  const IntVec counts = (IntVec)scales - (127 + (is_folded ? scale.fold_powers[part.row + row] : 0));
  const IntVec bounded = counts > -kFar ? counts : IntVec{} - kFar;
  const BitsVec words = (BitsVec)(bounded << 7);
  *reinterpret_cast<BitsVec*>(binades) = words << 16 | (words & 0xffffu);
  const __mmask16 are_there = static_cast<__mmask16>((1u << part.groups()) - 1);
  const __mmask16 are_far = _mm512_cmpgt_epi32_mask((__m512i)counts, _mm512_set1_epi32(kFar)) |
                            (is_folded ? 0 : _mm512_cmplt_epi32_mask((__m512i)counts, _mm512_set1_epi32(-kFar))) |
                            _mm512_cmpeq_epi32_mask(scales, _mm512_set1_epi32(kE8M0NaN));
  return (are_far & are_there) == 0;
}

// e4m3 scales as float32; false where one is NaN.
inline bool fill_e4m3_scales(const Scale& scale, const TilePart& part, int row, float (*scales)[2]) {
  alignas(16) uint8_t bytes[2 * kChunk / kGroup] = {};
  gather_scales(scale, part.row + row, part.k / kGroup * 2, 2 * part.groups(), bytes);
  Words largest{};
  float* to = scales[0];
  for (int i = 0; i < 2 * kChunk / kGroup; i += kLanes, to += kLanes) {
    const Words words = load_bytes_as_words(bytes + i);
    note_largest_bytes(words, largest);
    Floats floats = Codes<DType::kFloat8E4M3>::even(words);
    floats.part[0] *= Codes<DType::kFloat8E4M3>::kFactor;
    store(floats, to);
  }
  return !has_byte(largest, kE4M3NaN);
}

inline bool all_wait(const Scale& scale, const TilePart& part, int row) {
  const float* from = static_cast<const float*>(scale.data) + scale.strides.of_row(part.row + row);
  for (int64_t k = part.k; k < part.k + part.count; k += kFloat32ScaleBlock)
    if (!waits_for_sums(scale, bits_of(from[scale.strides.of_col(k / kFloat32ScaleBlock)]))) return false;
  return true;
}

// ---- rows of codes ----

// Asks for the bytes at the same place of the tile that comes next: decoding hides some of their way from memory.
// Beyond the end of an operand this does nothing.
inline void prefetch_next_tile(const Operand& operand, const uint8_t* row, int bytes) {
  const uint8_t* next = row + kAmxTileCols * operand.stride_mn;
  for (int i = 0; i < bytes; i += kTileAlignment) _mm_prefetch(next + i, _MM_HINT_T1);
}

// False where the tables do not serve: a code is NaN, or a scale of no usual size.
template <DType kElement>
bool decode_by_tables(const Operand& operand, const TilePart& part, uint16_t* to) {
  const Scale& scale = operand.scale;
  PartBuffer<uint8_t> buffer;
  const AdjacentRows<uint8_t> codes = adjacent_codes<kElement>(operand, part, buffer);
  const bool has_binades = scale.vec != 0 && scale.type == ScaleType::kE8M0, is_folded = scale.fold_powers != nullptr;
  const int groups = part.groups();
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(*to)) / sizeof(*to)) {
    const uint8_t* row = codes.row[r];
    prefetch_next_tile(operand, row, part.count / elements_per_byte(kElement));
    alignas(kTileAlignment) Binades binades[kChunk / kGroup + 1];
    if (has_binades && !fill_binades(scale, part, r, binades)) return false;
    if constexpr (kElement == DType::kFloat4E2M1) {
      alignas(kTileAlignment) float scales[kChunk / kGroup][2];
      if (is_folded)
        decode_folded_halves(row, binades, groups, to);
      else if (has_binades)
        decode_halves(row, binades, groups, to);
      else if (scale.type == ScaleType::kE4M3 && fill_e4m3_scales(scale, part, r, scales))
        decode_halves(row, scales, groups, to);
      else
        return false;
    } else {
      if (scale.vec != 0 && !has_binades && !all_wait(scale, part, r)) return false;
      const bool are_numbers = is_folded ? decode_folded_bytes<kElement>(row, binades, groups, to)
                                         : decode_bytes<kElement>(row, has_binades ? binades : nullptr, groups, to);
      if (!are_numbers) return false;
    }
  }
  return true;
}

// ---- rows of words ----

// Which words are of no usual size (are_usual); 0 is.
inline __mmask32 unusual_words(__m512i words) {
  const __m512i magnitudes = _mm512_and_si512(words, _mm512_set1_epi16(0x7fff));
  const __m512i above_least = _mm512_sub_epi16(magnitudes, _mm512_set1_epi16(kLeastUsualWord));
  const __mmask32 is_number = _mm512_test_epi16_mask(magnitudes, magnitudes);
  return _mm512_mask_cmpgt_epu16_mask(is_number, above_least, _mm512_set1_epi16(kMostUsualWord - kLeastUsualWord));
}

// Notes which rows have unusual words.
inline void copy_words(const Operand& operand, const TilePart& part, uint16_t* to, uint8_t* is_unusual) {
  PartBuffer<uint16_t> buffer;
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(*to)) / sizeof(*to)) {
    const auto rows = adjacent_rows(operand, {part.row + r, 1, part.k, part.count}, buffer);
    __mmask32 found = 0;
    for (int i = 0; i < part.groups() * kGroup; i += kGroup) {
      const __m512i words = _mm512_loadu_si512(rows.row[0] + i);
      found |= unusual_words(words);
      _mm512_store_si512(to + i, words);
    }
    is_unusual[r] |= found != 0 ? 1 : 0;
  }
}

// 16 columns of lines as rows: of each two elements along k a number of four bytes is made, 16 x 16 of these are
// turned.
inline void turn_lines(const Operand& lines, const TilePart& part, uint16_t* to, uint8_t* is_unusual) {
  constexpr int kRowBytes = tile_row_bytes(sizeof(*to));
  const auto* from = static_cast<const uint16_t*>(lines.data) + part.row + part.k * lines.stride_k;
  const auto pair_of = [&](int k) {
    const auto widened = [&](int at) {
      const auto* words = reinterpret_cast<const __m256i*>(from + at * lines.stride_k);
      return at < part.count ? (BitsVec)_mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(words)) : BitsVec{};
    };
    return widened(k) | widened(k + 1) << 16;
  };
  __mmask32 found[kSide] = {};
  for (int k = 0; k < part.count; k += kGroup) {
    Square pairs;
    for (int i = 0; i < kSide; ++i) *reinterpret_cast<BitsVec*>(pairs.of[i]) = pair_of(k + 2 * i);
    uint8_t* const rows = reinterpret_cast<uint8_t*>(to + k);
    turn(pairs.bytes(), kStepBytes, rows, kRowBytes);
    for (int r = 0; r < kSide; ++r) found[r] |= unusual_words(_mm512_load_si512(rows + r * kRowBytes));
  }
  for (int r = 0; r < part.rows; ++r) is_unusual[r] |= found[r] != 0 ? 1 : 0;
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
