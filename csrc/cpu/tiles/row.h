// A single row of `a`: rows of `b` are decoded or widened, multiplied in registers, and never stored; of a `b` whose
// columns are adjacent, columns are. The sums are those of tiles, bit by bit.
#pragma once

#include "cpu/tiles/fill.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

// ---- rows of b ----

constexpr int kRowCols = kWidth == kLanes ? 8 : 4;  // rows of b at a time: a vector or more holds the sums of each

// sums[c] += the row `a` of a tile times row c of kRowCols. load(c, g, first, second) gives the vectors of group g.
template <typename Load>
void add_row_products(const Load& load, const float* a, int groups, float* sums) {
  FloatVec lanes[kRowCols][kParts];
#pragma GCC unroll 8
  for (int c = 0; c < kRowCols; ++c)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) lanes[c][p] = FloatVec{};
  for (int g = 0; g < groups; ++g, a += kGroup)
#pragma GCC unroll 8
    for (int c = 0; c < kRowCols; ++c) {
      Floats first, second;
      load(c, g, first, second);
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) {
        const FloatVec* at = reinterpret_cast<const FloatVec*>(a) + p;
        lanes[c][p] = fused(at[0], first.part[p], lanes[c][p]);
        lanes[c][p] = fused(at[kParts], second.part[p], lanes[c][p]);
      }
    }
  for (int c = 0; c < kRowCols; c += 4) {
    const Floats4 four = sum_lanes<Floats4>(lanes[c], lanes[c + 1], lanes[c + 2], lanes[c + 3]);
    for (int i = 0; i < 4; ++i) sums[c + i] += four[i];
  }
}

// False, and no sum is changed, where a code or a scale is no number.
template <DType kElement>
bool add_decoded_row(const Operand& b, const TilePart& part, const float* a, float* sums) {
  using Element = Codes<kElement>;
  constexpr int kGroupCodes = kGroup / elements_per_byte(kElement);
  GroupScales scales[kRowCols];
  PartBuffer<uint8_t> buffer;
  bool is_usual = true;
  for (int c = 0; c < kRowCols; ++c) {
    fill_scales(b.scale, part.row + c, part.k, part.count, Codes<kElement>::kFactor, scales[c]);
    is_usual &= scales[c].are_numbers();
  }
  if (!is_usual) return false;
  const AdjacentRows<uint8_t> rows = adjacent_codes<kElement>(b, part, buffer);
  return with_scaling(b.scale, [&](auto scaling) {
    Words largest{};
    float products[kRowCols] = {};
    const auto load = [&](int c, int g, Floats& odd, Floats& even) {
      const auto words = Element::load(rows.row[c] + g * kGroupCodes);
      odd = Element::odd(words), even = Element::even(words);
      scale_lanes<scaling()>(scales[c].values[g], odd);
      scale_lanes<scaling()>(scales[c].values[g], even);
      if constexpr (Element::kHasNaN) note_largest_bytes(words, largest);
    };
    add_row_products(load, a, part.groups(), products);
    if (Element::kHasNaN && has_byte(largest, kE4M3NaN)) return false;
    for (int c = 0; c < kRowCols; ++c) sums[c] += products[c];
    return true;
  });
}

template <DType kElement>
bool add_number_row(const Operand& b, const TilePart& part, const float* a, float* sums) {
  PartBuffer<typename Numbers<kElement>::Unit> buffer;
  const auto rows = adjacent_rows(b, part, buffer);
  const auto load = [&](int c, int g, Floats& first, Floats& second) {
    Numbers<kElement>::load(rows.row[c] + g * kGroup, first, second);
  };
  add_row_products(load, a, part.groups(), sums);
  return true;
}

// kRowCols rows of `b`.
inline bool add_row(const Operand& b, const TilePart& part, const float* a, float* sums) {
  switch (b.dtype) {
    case DType::kFloat16:
      return add_number_row<DType::kFloat16>(b, part, a, sums);
    case DType::kBFloat16:
      return add_number_row<DType::kBFloat16>(b, part, a, sums);
    case DType::kFloat32:
      return add_number_row<DType::kFloat32>(b, part, a, sums);
    default:
      return with_codes(b.dtype, [&](auto element) { return add_decoded_row<element()>(b, part, a, sums); });
  }
}

// ---- columns of b ----

// Numbers that are adjacent from column to column as float32.
template <DType kElement>
FloatVec widened(const typename Numbers<kElement>::Unit* from) {
  if constexpr (kElement == DType::kFloat32) {
    return (FloatVec) * reinterpret_cast<const LooseBitsVec*>(from);
  } else {
    typedef uint16_t HalfVec __attribute__((vector_size(2 * kWidth), may_alias));
    typedef HalfVec LooseHalfVec __attribute__((aligned(2), may_alias));
    // aligned: the function below takes it by reference, and a template's argument has no alignment of its own
    const HalfVec words = *reinterpret_cast<const LooseHalfVec*>(from);
    if constexpr (kElement == DType::kBFloat16) {
      return (FloatVec)(__builtin_convertvector(words, BitsVec) << 16);
    } else {
      return narrow_halves_to_floats(words);
    }
  }
}

// Each lane's sums of all columns: where the lanes of a vector are of one column elsewhere, here a vector is of one
// lane.
struct ColumnLanes {
  alignas(kTileAlignment) float of[kLanes][kMaxBlockCols];
};

// Elements of `a`, and the lines of `b` whose columns they multiply one after the other; the lines of the next lane are
// `next` units further on.
template <DType kElement, int kLines>
struct LaneLines {
  float a[kLines];
  const typename Numbers<kElement>::Unit* b[kLines];
  int64_t next = 0;
};

// lane[c] += a * b[c] for `cols` columns, of one line after the other.
template <DType kElement, int kLines>
void add_to_lane(const LaneLines<kElement, kLines>& lines, int cols, float* lane) {
  using Unit = typename Numbers<kElement>::Unit;
  FloatVec factors[kLines];
  for (int i = 0; i < kLines; ++i) factors[i] = FloatVec{} + lines.a[i];
  int c = 0;
  for (; c + kWidth <= cols; c += kWidth) {
    FloatVec sums = *reinterpret_cast<FloatVec*>(lane + c);
    if (c * sizeof(Unit) % kTileAlignment == 0) {
#pragma GCC unroll 8
      for (int i = 0; i < kLines; ++i) __builtin_prefetch(lines.b[i] + lines.next + c);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kLines; ++i) sums = fused(factors[i], widened<kElement>(lines.b[i] + c), sums);
    *reinterpret_cast<FloatVec*>(lane + c) = sums;
  }
  if (c == cols) return;
  FloatVec sums = *reinterpret_cast<FloatVec*>(lane + c);
  for (int i = 0; i < kLines; ++i) {
    Unit rest[kWidth] = {};
    memcpy(rest, lines.b[i] + c, (cols - c) * sizeof(Unit));
    sums = fused(factors[i], widened<kElement>(rest), sums);
  }
  *reinterpret_cast<FloatVec*>(lane + c) = sums;
}

// sums[c] += the row `a` of a tile times the columns, a chunk long at most.
template <DType kElement>
void add_columns(const Operand& b, const TilePart& part, TileOrder order, const float* a, float* sums) {
  const auto* from = static_cast<const typename Numbers<kElement>::Unit*>(b.data) + part.row + part.k * b.stride_k;
  ColumnLanes lanes;
  for (auto& lane : lanes.of) memset(lane, 0, (part.rows + kWidth - 1) / kWidth * kWidth * sizeof(float));
  // Element `i` of group `g`, in the order in which they stand in a's tile.
  const auto k_of = [&](int g, int i) {
    return g * kGroup + (order == TileOrder::kNatural ? i : 2 * (i % kLanes) + (i < kLanes ? 1 : 0));
  };
  // Lines of several groups at a time, so that a lane's sums are loaded and stored once for all of them.
  constexpr int kGroupsAtATime = kElement == DType::kFloat32 ? 1 : 4, kLines = kGroupsAtATime * kGroup / kLanes;
  int g = 0;
  for (; (g + kGroupsAtATime) * kGroup <= part.count; g += kGroupsAtATime)
    for (int lane = 0; lane < kLanes; ++lane) {
      LaneLines<kElement, kLines> lines;
      lines.next = (order == TileOrder::kNatural ? 1 : 2) * b.stride_k;
      for (int i = 0; i < kLines; ++i) {
        const int group = g + i / 2, element = lane + i % 2 * kLanes;
        lines.a[i] = a[group * kGroup + element];
        lines.b[i] = from + k_of(group, element) * b.stride_k;
      }
      add_to_lane(lines, part.rows, lanes.of[lane]);
    }
  for (; g < part.groups(); ++g)
    for (int i = 0; i < kGroup; ++i) {
      const int k = k_of(g, i);
      if (k >= part.count) continue;
      add_to_lane(LaneLines<kElement, 1>{{a[g * kGroup + i]}, {from + k * b.stride_k}}, part.rows,
                  lanes.of[i % kLanes]);
    }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      for (int c = 0; c < part.rows; ++c) lanes.of[lane][c] += lanes.of[lane + half][c];
  for (int c = 0; c < part.rows; ++c) sums[c] += lanes.of[0][c];
}

// Whether columns of `b` are read as such: adjacent ones of numbers.
inline bool reads_columns(const Operand& b) {
  const bool has_numbers = b.dtype == DType::kFloat16 || b.dtype == DType::kBFloat16 || b.dtype == DType::kFloat32;
  return has_numbers && has_adjacent_columns(b);
}

inline void add_columns(const Operand& b, const TilePart& part, TileOrder order, const float* a, float* sums) {
  if (b.dtype == DType::kFloat16) return add_columns<DType::kFloat16>(b, part, order, a, sums);
  if (b.dtype == DType::kBFloat16) return add_columns<DType::kBFloat16>(b, part, order, a, sums);
  return add_columns<DType::kFloat32>(b, part, order, a, sums);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
