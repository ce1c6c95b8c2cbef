// Rows of codes made into words of bfloat16 by tables that lie in registers: 64 codes of a byte, or 32 of half a byte,
// at a time. A scale that is a power of two is added to the exponents; one that waits for the sums is left out.
#pragma once

#include "cpu/tiles/fill.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// ---- tables ----

// significand * 2^exponent; significand: up to 8 bits.
constexpr uint16_t bfloat16_of(uint32_t significand, int exponent) {
  if (significand == 0) return 0;
  int top = 7;
  while (significand >> top == 0) --top;
  return static_cast<uint16_t>((127 + exponent + top) << 7 | (significand << (7 - top) & 0x7f));
}

// A float of some bits of exponent and of mantissa, without its sign.
constexpr uint16_t bfloat16_of_float(uint32_t magnitude, int mantissa_bits, int bias) {
  const uint32_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
  const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  return bfloat16_of(exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits, power);
}

// A code without its sign as a number; of int8 below 0: that of -1 - code.
template <DType kElement>
constexpr uint16_t bfloat16_of_code(uint32_t magnitude, bool is_negative) {
  if (kElement == DType::kInt8) return bfloat16_of(magnitude + (is_negative ? 1 : 0), 0) | (is_negative ? 0x8000 : 0);
  if (kElement == DType::kFloat8E4M3) return bfloat16_of_float(magnitude, 3, 7);
  if (magnitude >= 0x7c) return static_cast<uint16_t>(0x7f80 | (magnitude & 3) << 5);  // e5m2's infinity and NaN
  return bfloat16_of_float(magnitude, 2, 15);
}

// The upper and the lower bytes of what 128 codes become.
struct ByteTable {
  alignas(kTileAlignment) uint8_t high[128], low[128];
};

template <DType kElement>
constexpr ByteTable byte_table(bool is_negative) {
  ByteTable table{};
  for (uint32_t i = 0; i < 128; ++i) {
    const uint16_t word = bfloat16_of_code<kElement>(i, is_negative);
    table.high[i] = static_cast<uint8_t>(word >> 8), table.low[i] = static_cast<uint8_t>(word);
  }
  return table;
}

template <DType kElement>
constexpr ByteTable kByteTable = byte_table<kElement>(false);
constexpr ByteTable kNegativeBytes = byte_table<DType::kInt8>(true);

// e2m1 by its four bits, twice: a fifth bit of an index does not count.
struct NibbleTable {
  alignas(kTileAlignment) uint16_t words[32];
};

constexpr NibbleTable nibble_table() {
  NibbleTable table{};
  for (uint32_t i = 0; i < 32; ++i)
    table.words[i] = static_cast<uint16_t>(bfloat16_of_float(i & 7, 1, 1) | (i & 8) << 12);
  return table;
}

constexpr NibbleTable kNibbleTable = nibble_table();

// ---- codes to words ----

inline __m512i loaded(const void* from) { return _mm512_load_si512(from); }

// Words times a power of two: `binades`, in units of the exponent, are added to those that are not 0.
inline __m512i moved(__m512i words, const int16_t* binades) {
  const __mmask32 is_number = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7fff));
  return _mm512_mask_add_epi16(words, is_number, words, _mm512_set1_epi16(*binades));
}

template <DType kElement>
class ByteDecoder {
 public:
  ByteDecoder() {
    for (int i = 0; i < 2; ++i)
      high_[i] = loaded(kByteTable<kElement>.high + 64 * i), low_[i] = loaded(kByteTable<kElement>.low + 64 * i);
  }

  // 64 codes, the first 32 and the others.
  void decode(__m512i codes, __m512i& first, __m512i& second) const {
    // the halves of each 16 bytes go to `first` and to `second`
    codes = _mm512_maskz_permutexvar_epi64(0xff, _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), codes);
    __m512i high, low;
    if constexpr (kElement == DType::kInt8) {
      const __mmask64 is_negative = _mm512_movepi8_mask(codes);
      const __m512i others = _mm512_xor_si512(codes, _mm512_set1_epi8(-1));
      high = looked_up(high_[0], codes, high_[1]), low = looked_up(low_[0], codes, low_[1]);
      const ByteTable& table = kNegativeBytes;
      high = _mm512_mask_mov_epi8(high, is_negative, looked_up(loaded(table.high), others, loaded(table.high + 64)));
      low = _mm512_mask_mov_epi8(low, is_negative, looked_up(loaded(table.low), others, loaded(table.low + 64)));
    } else {
      const __m512i signs = _mm512_and_si512(codes, _mm512_set1_epi8(-128));
      high = _mm512_or_si512(looked_up(high_[0], codes, high_[1]), signs);
      low = looked_up(low_[0], codes, low_[1]);
    }
    first = _mm512_maskz_unpacklo_epi8(~__mmask64{}, low, high);
    second = _mm512_maskz_unpackhi_epi8(~__mmask64{}, low, high);
  }

 private:
  // The lower seven bits of each code are the index.
  static __m512i looked_up(__m512i first, __m512i codes, __m512i second) {
    return _mm512_permutex2var_epi8(first, codes, second);
  }

  __m512i high_[2], low_[2];
};

// Whether all codes were numbers. binades: null, or what the scale of each group adds to the exponents.
template <DType kElement>
bool decode_bytes(const uint8_t* codes, const int16_t* binades, int groups, uint16_t* to) {
  const ByteDecoder<kElement> decoder;
  __mmask64 is_nan = 0;
  for (int g = 0; g < groups; g += 2, codes += 2 * kGroup, to += 2 * kGroup) {
    const bool is_last = g + 1 == groups;
    const __m512i bytes = _mm512_maskz_loadu_epi8(is_last ? ~__mmask64{} >> kGroup : ~__mmask64{}, codes);
    if (kElement == DType::kFloat8E4M3)
      is_nan |= _mm512_cmpeq_epi8_mask(_mm512_or_si512(bytes, _mm512_set1_epi8(-128)), _mm512_set1_epi8(-1));
    __m512i first, second;
    decoder.decode(bytes, first, second);
    if (binades != nullptr) first = moved(first, binades + g), second = moved(second, binades + g + 1);
    _mm512_store_si512(to, first);
    if (!is_last) _mm512_store_si512(to + kGroup, second);
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

inline void decode_halves(const uint8_t* codes, const int16_t* binades, int groups, uint16_t* to) {
  const __m512i table = loaded(kNibbleTable.words);
  for (int g = 0; g < groups; ++g, codes += kGroup / 2, to += kGroup)
    _mm512_store_si512(to, moved(looked_up(halves_of_bytes(codes), table), binades + g));
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

// What e8m0 scales of a row add to the exponents of their groups. False where one is not of a usual size: codes, which
// lie between 2^-16 and 2^16, would not stay so (are_usual).
inline bool fill_binades(const Scale& scale, const TilePart& part, int row, int16_t* binades) {
  constexpr int kBias = 127, kFar = 40;
  alignas(16) uint8_t bytes[kChunk / kGroup];
  memset(bytes, kBias, sizeof(bytes));
  gather_scales(scale, part.row + row, part.k / kGroup, part.groups(), bytes);
  const __m256i words =
      _mm256_sub_epi16(_mm256_cvtepu8_epi16(*reinterpret_cast<const __m128i*>(bytes)), _mm256_set1_epi16(kBias));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(binades), _mm256_slli_epi16(words, 7));
  return _mm256_cmpgt_epi16_mask(_mm256_abs_epi16(words), _mm256_set1_epi16(kFar)) == 0;
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

// ---- rows ----

// Asks for the bytes at the same place of the tile that comes next: decoding hides some of their way from memory. Beyond
// the end of an operand this does nothing.
inline void prefetch_next_tile(const Operand& operand, const uint8_t* row, int bytes) {
  const uint8_t* next = row + kAmxTileCols * operand.stride_mn;
  for (int i = 0; i < bytes; i += kTileAlignment) _mm_prefetch(next + i, _MM_HINT_T1);
}

// False where the tables do not serve: a code is NaN, a scale of no usual size, or the row is folded.
template <DType kElement>
bool decode_by_tables(const Operand& operand, const TilePart& part, uint16_t* to) {
  const Scale& scale = operand.scale;
  if (scale.fold_powers != nullptr) return false;
  PartBuffer<uint8_t> buffer;
  const AdjacentRows<uint8_t> codes = adjacent_codes<kElement>(operand, part, buffer);
  const bool has_binades = scale.vec != 0 && scale.type == ScaleType::kE8M0;
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(sizeof(*to)) / sizeof(*to)) {
    prefetch_next_tile(operand, codes.row[r], part.count / elements_per_byte(kElement));
    int16_t binades[kChunk / kGroup + 1];
    if (has_binades && !fill_binades(scale, part, r, binades)) return false;
    if constexpr (kElement == DType::kFloat4E2M1) {
      if (has_binades) {
        decode_halves(codes.row[r], binades, part.groups(), to);
        continue;
      }
      float scales[kChunk / kGroup][2];
      if (scale.type != ScaleType::kE4M3 || !fill_e4m3_scales(scale, part, r, scales)) return false;
      decode_halves(codes.row[r], scales, part.groups(), to);
    } else {
      if (scale.vec != 0 && !has_binades && !all_wait(scale, part, r)) return false;
      if (!decode_bytes<kElement>(codes.row[r], has_binades ? binades : nullptr, part.groups(), to)) return false;
    }
  }
  return true;
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
