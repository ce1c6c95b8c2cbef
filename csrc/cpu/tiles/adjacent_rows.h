// Rows of operands with their units, of one or more bytes, one after the other: where they are, or copied.
#pragma once

#include "cpu/tiles/lanes.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// Elements [k, k + count) of rows [row, row + rows): a chunk at most. Tiles take kTileCols rows, AMX's panels more.
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

template <typename Unit>
struct PartBuffer {
  alignas(kTileAlignment) Unit rows[kTileCols][kChunk];
};

template <typename Unit>
struct AdjacentRows {
  const Unit* row[kTileCols];
};

// Eight rows, of words, in blocks of 8 x 8: interleaved three times.
inline int copy_transposed_blocks(const uint16_t* from, int64_t stride, int count, uint16_t (*to)[kChunk]) {
  typedef uint16_t Eight __attribute__((vector_size(16), may_alias));
  typedef Eight LooseEight __attribute__((aligned(2), may_alias));
  int k = 0;
  for (; k + 8 <= count; k += 8) {
    Eight x[8], y[8];
    for (int i = 0; i < 8; ++i) x[i] = *reinterpret_cast<const LooseEight*>(from + (k + i) * stride);
#pragma GCC unroll 3
    for (int level = 0; level < 3; ++level) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
      }
      memcpy(x, y, sizeof(x));
    }
    for (int i = 0; i < 8; ++i) *reinterpret_cast<Eight*>(to[i] + k) = x[i];
  }
  return k;
}

// Eight rows, of float32, in blocks of 4 x 4.
inline int copy_transposed_blocks(const uint32_t* from, int64_t stride, int count, uint32_t (*to)[kChunk]) {
  typedef uint32_t Four __attribute__((vector_size(16), may_alias));
  typedef Four LooseFour __attribute__((aligned(4), may_alias));
  int k = 0;
  for (; k + 4 <= count; k += 4)
    for (int r = 0; r < kTileCols; r += 4) {
      Four x[4];
      for (int i = 0; i < 4; ++i) x[i] = *reinterpret_cast<const LooseFour*>(from + (k + i) * stride + r);
      const Four low01 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
      const Four high01 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
      const Four low23 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
      const Four high23 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
      *reinterpret_cast<Four*>(to[r] + k) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(to[r + 1] + k) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(to[r + 2] + k) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(to[r + 3] + k) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
  return k;
}

template <typename Unit>
int copy_transposed_blocks(const Unit*, int64_t, int, Unit (*)[kChunk]) {
  return 0;
}

// `count` units of rows that are a unit apart.
template <typename Unit>
void copy_transposed(const Unit* from, int64_t stride, int rows, int count, Unit (*to)[kChunk]) {
  for (int k = rows == kTileCols ? copy_transposed_blocks(from, stride, count, to) : 0; k < count; ++k)
    for (int r = 0; r < rows && r < kTileCols; ++r) to[r][k] = from[k * stride + r];
}

// Whether units are adjacent from row to row of [mn][k], not along k.
inline bool has_adjacent_columns(const Operand& operand) { return operand.stride_mn == 1 && operand.stride_k != 1; }

// Units of a part, of which kPerUnit elements share one: where they are, or copied to `buffer`. Behind a last group
// that is not full come zeros.
template <typename Unit, int kPerUnit = 1>
AdjacentRows<Unit> adjacent_rows(const Operand& operand, const TilePart& part, PartBuffer<Unit>& buffer) {
  const Unit* from =
      static_cast<const Unit*>(operand.data) + part.row * operand.stride_mn + part.k / kPerUnit * operand.stride_k;
  const int count = part.count / kPerUnit, whole = part.groups() * (kGroup / kPerUnit);
  AdjacentRows<Unit> rows;
  if (operand.stride_k == 1 && count == whole) {
    for (int r = 0; r < part.rows; ++r) rows.row[r] = from + r * operand.stride_mn;
    return rows;
  }
  const bool is_transposed = has_adjacent_columns(operand);
  if (is_transposed) copy_transposed(from, operand.stride_k, part.rows, count, buffer.rows);
  for (int r = 0; r < part.rows; ++r) {
    Unit* to = buffer.rows[r];
    const Unit* row = from + r * operand.stride_mn;
    if (operand.stride_k == 1) {
      memcpy(to, row, count * sizeof(Unit));
    } else if (!is_transposed) {
      for (int i = 0; i < count; ++i) to[i] = row[i * operand.stride_k];
    }
    for (int i = count; i < whole; ++i) to[i] = 0;
    rows.row[r] = to;
  }
  return rows;
}

// Some adjacent columns, whole lines of a cache. Tiles are filled from a copy: read from an operand whose columns are
// adjacent itself, a line would come as often as it has tiles, and lines a power of two apart share few places in a
// cache.
constexpr int kPanelBytes = 128;

struct PanelLines {
  alignas(kTileAlignment) uint8_t of[kChunk][kPanelBytes];
};

// Of elements without scales; `part` has no more columns than a line. The copy's first element is element 0 of row 0.
inline Operand copied_lines(const Operand& operand, const TilePart& part, PanelLines& lines) {
  const int bytes = info(operand.dtype).bytes;
  const auto* from = static_cast<const uint8_t*>(operand.data) + (part.row + part.k * operand.stride_k) * bytes;
  for (int i = 0; i < part.count; ++i, from += operand.stride_k * bytes) memcpy(lines.of[i], from, part.rows * bytes);
  Operand copy = operand;
  copy.data = lines.of;
  copy.stride_k = kPanelBytes / bytes;
  return copy;
}

template <DType kElement>
AdjacentRows<uint8_t> adjacent_codes(const Operand& operand, const TilePart& part, PartBuffer<uint8_t>& buffer) {
  return adjacent_rows<uint8_t, elements_per_byte(kElement)>(operand, part, buffer);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
