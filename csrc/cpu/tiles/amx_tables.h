// Tables of what codes become as words of bfloat16, worked out by the compiler.
#pragma once

#include "cpu/tiles/block.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// significand * 2^exponent; significand: up to 8 bits.
constexpr uint16_t bfloat16_of(uint32_t significand, int exponent) {
  if (significand == 0) return 0;
  int top = 7;
  while (significand >> top == 0) --top;
  return static_cast<uint16_t>((127 + exponent + top) << 7 | (significand << (7 - top) & 0x7f));
}

// A code's magnitude is significand * 2^exponent.
struct Significand {
  uint32_t bits;
  int exponent;
};

// Of a float of some bits of exponent and of mantissa.
constexpr Significand significand_of_float(uint32_t magnitude, int mantissa_bits, int bias) {
  const uint32_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
  return {exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits,
          static_cast<int>(exponent == 0 ? 1 : exponent) - bias - mantissa_bits};
}

template <DType kElement>
constexpr Significand significand_of(uint32_t magnitude) {
  if (kElement == DType::kFloat4E2M1) return significand_of_float(magnitude, 1, 1);
  if (kElement == DType::kFloat8E4M3) return significand_of_float(magnitude, 3, 7);
  if (kElement == DType::kFloat8E5M2) return significand_of_float(magnitude, 2, 15);
  return {magnitude, 0};
}

constexpr bool is_finite(DType element, uint32_t magnitude) {
  return element != DType::kFloat8E5M2 || magnitude < 0x7c;
}

constexpr uint16_t infinity_or_nan(uint32_t magnitude) { return static_cast<uint16_t>(0x7f80 | (magnitude & 3) << 5); }

// A code without its sign as a number; of int8 below 0: that of -1 - code.
template <DType kElement>
constexpr uint16_t bfloat16_of_code(uint32_t magnitude, bool is_negative) {
  if (kElement == DType::kInt8) return bfloat16_of(magnitude + (is_negative ? 1 : 0), 0) | (is_negative ? 0x8000 : 0);
  if (!is_finite(kElement, magnitude)) return infinity_or_nan(magnitude);
  const Significand number = significand_of<kElement>(magnitude);
  return bfloat16_of(number.bits, number.exponent);
}

// The same times 2^binades, rounded to a multiple of e4m3's smallest step, as a fold has it (core/fold.h).
template <DType kElement>
constexpr uint16_t bfloat16_of_folded_code(uint32_t magnitude, int binades) {
  if (!is_finite(kElement, magnitude)) return infinity_or_nan(magnitude);
  constexpr int kStep = -9;
  const Significand number = significand_of<kElement>(magnitude);
  const int exponent = number.exponent + binades, below = kStep - exponent;
  if (below <= 0) return bfloat16_of(number.bits, exponent);
  if (below > 8) return 0;  // less than half a step
  const uint32_t whole = number.bits >> below, twice_rest = (number.bits - (whole << below)) * 2, step = 1u << below;
  const bool is_up = twice_rest > step || (twice_rest == step && whole % 2 == 1);
  return bfloat16_of(whole + (is_up ? 1 : 0), kStep);
}

// The upper and the lower bytes of what 128 codes become.
struct ByteTable {
  alignas(kTileAlignment) uint8_t high[128], low[128];

  constexpr void set(uint32_t code, uint16_t word) {
    high[code] = static_cast<uint8_t>(word >> 8), low[code] = static_cast<uint8_t>(word);
  }
};

template <DType kElement>
constexpr ByteTable byte_table(bool is_negative) {
  ByteTable table{};
  for (uint32_t i = 0; i < 128; ++i) table.set(i, bfloat16_of_code<kElement>(i, is_negative));
  return table;
}

template <DType kElement>
constexpr ByteTable kByteTable = byte_table<kElement>(false);
constexpr ByteTable kNegativeBytes = byte_table<DType::kInt8>(true);

// e2m1 by its four bits, twice: a fifth bit of an index does not count.
struct NibbleTable {
  alignas(kTileAlignment) uint16_t words[32];

  constexpr void set(uint32_t code, uint16_t word) {
    words[code] = words[code | 16] = word;
    words[code | 8] = words[code | 24] = word | 0x8000;
  }
};

constexpr NibbleTable nibble_table() {
  NibbleTable table{};
  for (uint32_t i = 0; i < 8; ++i) table.set(i, bfloat16_of_code<DType::kFloat4E2M1>(i, false));
  return table;
}

constexpr NibbleTable kNibbleTable = nibble_table();

// For folds: of codes times 2^(kFoldAbove - i). Of the first one no code is rounded, of the last one every code is 0.
constexpr int kFoldAbove = 7, kFoldTables = 34;

template <typename Table>
struct TablesByBinade {
  Table of[kFoldTables];
};

template <DType kElement, typename Table, int kCodes>
constexpr TablesByBinade<Table> fold_tables() {
  TablesByBinade<Table> tables{};
  for (int table = 0; table < kFoldTables; ++table)
    for (uint32_t i = 0; i < kCodes; ++i)
      tables.of[table].set(i, bfloat16_of_folded_code<kElement>(i, kFoldAbove - table));
  return tables;
}

template <DType kElement>
constexpr auto kFoldedBytes = fold_tables<kElement, ByteTable, 128>();
constexpr auto kFoldedNibbles = fold_tables<DType::kFloat4E2M1, NibbleTable, 8>();
static_assert(kFoldedBytes<DType::kFloat8E5M2>.of[kFoldTables - 1].high[0x7b] == 0 &&
              kFoldedBytes<DType::kFloat8E5M2>.of[kFoldTables - 2].high[0x7b] != 0);

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
