// A block of a product by 16 lanes along k: tiles are filled, rows of `a` times rows of `b` summed up.
#pragma once

#include "cpu/tiles/row.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

constexpr bool kManyRegisters = TILEON_CPU_REGISTERS == 32;
constexpr int kSumCols = 4;  // of which the registers hold the sums of some rows; of a single row those of a tile
static_assert(kTileCols % kSumCols == 0);

// float32: a fused multiply-add of a group's first 16 elements, then of its second.
struct FloatLanes {
  using Element = float;
  using Sum = float;
  using Vec = FloatVec;
  static constexpr int kVecsPerGroup = 2;  // of each part
  static constexpr int kRows = kManyRegisters ? 6 : 3;

  static void add_product(const Vec& a, const Vec& b, Vec& sum) { sum = fused(a, b, sum); }

  template <int kCount>
  static void add_sums(const Vec (&lanes)[kCount][kParts], float* sums) {
    for (int c = 0; c < kCount; c += 4) {
      const Floats4 four = sum_lanes<Floats4>(lanes[c], lanes[c + 1], lanes[c + 2], lanes[c + 3]);
      for (int i = 0; i < 4; ++i) sums[c + i] += four[i];
    }
  }
};

#ifdef TILEON_CPU_BFLOAT16
// Pairs of bfloat16: the odd element, then the even one, as float32 has them; wherever are_products_normal says so,
// which is where the instruction that takes subnormal numbers for 0 gives the same bits.
struct Bfloat16Lanes : FloatLanes {
  using Element = uint16_t;
  static constexpr int kVecsPerGroup = 1;

  static void add_product(const Vec& a, const Vec& b, Vec& sum) {
#if TILEON_CPU_WIDTH == 16
    sum = (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else  // for tests on processors without the instruction
    sum = fused((Vec)((BitsVec)a & 0xffff0000u), (Vec)((BitsVec)b & 0xffff0000u), sum);
    sum = fused((Vec)((BitsVec)a << 16), (Vec)((BitsVec)b << 16), sum);
#endif
  }
};
#endif

// int8 as words of 16 bits: a chunk adds up to 2^21 in a lane at most.
struct Int8Lanes {
  using Element = int16_t;
  using Sum = int64_t;
  using Vec = IntVec;
  static constexpr int kVecsPerGroup = 1;
  static constexpr int kRows = kManyRegisters ? 5 : 2;  // a product needs a register too

  static void add_product(const Vec& a, const Vec& b, Vec& sum) { sum = add_pairs(a, b, sum); }

  template <int kCount>
  static void add_sums(const Vec (&lanes)[kCount][kParts], int64_t* sums) {
    for (int c = 0; c < kCount; c += 4) {
      const Ints4 four = sum_lanes<Ints4>(lanes[c], lanes[c + 1], lanes[c + 2], lanes[c + 3]);
      for (int i = 0; i < 4; ++i) sums[c + i] += four[i];
    }
  }
};

struct DoubleLanes {
  using Element = double;
  using Sum = double;
  using Vec = DoubleVec;
  static constexpr int kVecsPerGroup = 4;
  static constexpr int kRows = kManyRegisters ? 6 : 3;

  static void add_product(const Vec& a, const Vec& b, Vec& sum) { sum = fused(a, b, sum); }

  template <int kCount>
  static void add_sums(const Vec (&lanes)[kCount][kParts], double* sums) {
    for (int c = 0; c < kCount; ++c) sums[c] += sum_lanes(lanes[c]);
  }
};

template <typename Lanes>
constexpr int kRowBytes = tile_row_bytes(sizeof(typename Lanes::Element));

// sums[r][c] += row r of `a` times row c of `b`, `groups` groups long; sums: [][stride].
template <typename Lanes, int kRows, int kCols>
void add_dot_products(const uint8_t* a, const uint8_t* b, int groups, typename Lanes::Sum* sums, int stride) {
  using Vec = typename Lanes::Vec;
  Vec lanes[kRows][kCols][kParts];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) lanes[r][c][p] = Vec{};
  const int steps = groups * Lanes::kVecsPerGroup;
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) {
    const uint8_t* a_part = a + p * kWidth * 4;
    const uint8_t* b_part = b + p * kWidth * 4;
    for (int step = 0; step < steps; ++step, a_part += kLanes * 4, b_part += kLanes * 4) {
      Vec a_vec[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) a_vec[r] = *reinterpret_cast<const Vec*>(a_part + r * kRowBytes<Lanes>);
#pragma GCC unroll 8
      for (int c = 0; c < kCols; ++c) {
        const Vec b_vec = *reinterpret_cast<const Vec*>(b_part + c * kRowBytes<Lanes>);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) Lanes::add_product(a_vec[r], b_vec, lanes[r][c][p]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) Lanes::template add_sums<kCols>(lanes[r], sums + r * stride);
}

// The last rows of a block, kRows at most, times kSumCols columns.
template <typename Lanes, int kRows>
void add_last_rows(const uint8_t* a, const uint8_t* b, int rows, int groups, typename Lanes::Sum* sums, int stride) {
  if constexpr (kRows > 0) {
    if (rows == kRows)
      add_dot_products<Lanes, kRows, kSumCols>(a, b, groups, sums, stride);
    else
      add_last_rows<Lanes, kRows - 1>(a, b, rows, groups, sums, stride);
  }
}

// All rows of the block times the columns of the tile: kSumCols columns, which stay in the L1 cache, at a time.
template <typename Lanes>
void add_tile_products(const TileBlock& block, int groups, typename Lanes::Sum* sums) {
  constexpr int kRows = Lanes::kRows;
  const int stride = block.sums_stride;
  if (block.rows == 1) return add_dot_products<Lanes, 1, kTileCols>(block.a_tile, block.b_tile, groups, sums, stride);
  int row = 0;
  for (; row + kRows <= block.rows; row += kRows)
    for (int c = 0; c < kTileCols; c += kSumCols)
      add_dot_products<Lanes, kRows, kSumCols>(block.a_tile + row * kRowBytes<Lanes>,
                                               block.b_tile + c * kRowBytes<Lanes>, groups, sums + row * stride + c,
                                               stride);
  for (int c = 0; c < kTileCols; c += kSumCols)
    add_last_rows<Lanes, kRows - 1>(block.a_tile + row * kRowBytes<Lanes>, block.b_tile + c * kRowBytes<Lanes>,
                                    block.rows - row, groups, sums + row * stride + c, stride);
}

template <typename Lanes>
bool fill(const Operand& operand, const TilePart& part, TileOrder order, uint8_t* tile, Magnitudes* magnitudes) {
  return fill_tile(operand, part, order, reinterpret_cast<typename Lanes::Element*>(tile), magnitudes);
}

// The columns of one tile: `part` names their rows of `b`. sums: those of the tile's first column on. False where the
// tile cannot hold them.
template <typename Lanes>
bool add_tile(const Problem& problem, const TileBlock& block, const TilePart& part, const Magnitudes& of_a,
              typename Lanes::Sum* sums) {
  Magnitudes of_b;
  if (!fill<Lanes>(problem.b, part, order_of(problem), block.b_tile, &of_b)) return false;
  if (std::is_same_v<typename Lanes::Element, uint16_t> && !are_products_normal(of_a, of_b)) return false;
  constexpr int kGroupBytes = kGroup * sizeof(typename Lanes::Element);
  for (int i = part.rows; i < kTileCols; ++i)
    memset(block.b_tile + i * kRowBytes<Lanes>, 0, part.groups() * kGroupBytes);
  add_tile_products<Lanes>(block, part.groups(), sums);
  return true;
}

// As add_tile, of a block that has a single row.
inline void add_row_tile(const Problem& problem, const TileBlock& block, const TilePart& part, float* sums) {
  const float* a = reinterpret_cast<const float*>(block.a_tile);
  int c = 0;
  for (; c + kRowCols <= part.rows; c += kRowCols)
    if (!add_row(problem.b, {part.row + c, kRowCols, part.k, part.count}, a, sums + c)) break;
  for (; c < part.rows; c += kRowCols) {  // a tile takes what is left, kRowCols columns at a time
    const int cols = part.rows - c < kRowCols ? part.rows - c : kRowCols;
    float tile_sums[kTileCols] = {};
    memcpy(tile_sums, sums + c, cols * sizeof(float));
    add_tile<FloatLanes>(problem, block, {part.row + c, cols, part.k, part.count}, {}, tile_sums);
    memcpy(sums + c, tile_sums, cols * sizeof(float));
  }
}

// Chunks of the block's rows of `a` that the tile has place for. Of few rows those are many: a row of `b` is then read
// from its begin to its end, as the processor's prefetching has it.
inline int chunks_at_a_time(const TileBlock& block) { return kTileRows / block.rows; }

// ---- columns of a block ----

// As add_columns_of, of a `b` whose columns are adjacent and whose elements have no scales.
template <typename Lanes>
bool add_panels_of(const Problem& problem, const TileBlock& block, const TilePass& pass, const Magnitudes& of_a,
                   typename Lanes::Sum* sums) {
  PanelLines lines;
  const int width = kPanelBytes / info(problem.b.dtype).bytes;
  Problem panel = problem;
  for (int c = 0; c < block.cols; c += width) {
    const int cols = block.cols - c < width ? block.cols - c : width;
    TileBlock chunk = block;
    for (int64_t k = 0; k < pass.count; k += kChunk, chunk.a_tile += block.rows * kRowBytes<Lanes>) {
      const int count = pass.chunk(k);
      panel.b = copied_lines(problem.b, {block.col + c, cols, pass.k + k, count}, lines);
      for (int i = 0; i < cols; i += kTileCols) {
        const TilePart part{i, cols - i < kTileCols ? cols - i : kTileCols, 0, count};
        if (!add_tile<Lanes>(panel, chunk, part, of_a, sums + c + i)) return false;
      }
    }
  }
  return true;
}

// The block's columns times chunks of `a` that are in its tile, `pass.count` elements along k from `pass.k`.
template <typename Lanes>
bool add_columns_of(const Problem& problem, const TileBlock& block, const TilePass& pass, const Magnitudes& of_a,
                    typename Lanes::Sum* sums) {
  if (problem.b.scale.vec == 0 && has_adjacent_columns(problem.b))
    return add_panels_of<Lanes>(problem, block, pass, of_a, sums);
  for (int c = 0; c < block.cols; c += kTileCols) {
    const int cols = block.cols - c < kTileCols ? block.cols - c : kTileCols;
    TileBlock chunk = block;
    for (int64_t k = 0; k < pass.count; k += kChunk, chunk.a_tile += block.rows * kRowBytes<Lanes>) {
      const TilePart part{block.col + c, cols, pass.k + k, pass.chunk(k)};
      if constexpr (std::is_same_v<Lanes, FloatLanes>) {
        if (block.rows == 1) {
          add_row_tile(problem, chunk, part, sums + c);
          continue;
        }
      }
      if (!add_tile<Lanes>(problem, chunk, part, of_a, sums + c)) return false;
    }
  }
  return true;
}

// As add_columns_of, of a single row and a `b` whose columns are adjacent.
inline void add_columns_of_row(const Problem& problem, const TileBlock& block, const TilePass& pass, float* sums) {
  const float* a = reinterpret_cast<const float*>(block.a_tile);
  for (int64_t k = 0; k < pass.count; k += kChunk, a += kRowBytes<FloatLanes> / sizeof(float))
    add_columns(problem.b, {block.col, block.cols, pass.k + k, pass.chunk(k)}, order_of(problem), a, sums);
}

// False where the tiles of these lanes cannot hold an operand.
template <typename Lanes>
bool multiply_block(const Problem& problem, const TileBlock& block, typename Lanes::Sum* sums) {
  memset(sums, 0, sizeof(*sums) * block.rows * block.sums_stride);
  const int64_t step = static_cast<int64_t>(chunks_at_a_time(block)) * kChunk;
  for (int64_t begin = 0; begin < problem.k; begin += step) {
    const TilePass pass{begin, problem.k - begin < step ? problem.k - begin : step};
    uint8_t* a_tile = block.a_tile;
    Magnitudes of_a;
    for (int64_t k = 0; k < pass.count; k += kChunk, a_tile += block.rows * kRowBytes<Lanes>)
      for (int r = 0; r < block.rows; r += kTileCols) {
        const int rows = block.rows - r < kTileCols ? block.rows - r : kTileCols;
        const TilePart part{block.row + r, rows, begin + k, pass.chunk(k)};
        if (!fill<Lanes>(problem.a, part, order_of(problem), a_tile + r * kRowBytes<Lanes>, &of_a)) return false;
      }
    if constexpr (std::is_same_v<Lanes, FloatLanes>) {
      if (block.rows == 1 && reads_columns(problem.b)) {
        add_columns_of_row(problem, block, pass, sums);
        continue;
      }
    }
    if (!add_columns_of<Lanes>(problem, block, pass, of_a, sums)) return false;
  }
  return true;
}

inline void multiply(const Problem& problem, const TileBlock& block, float* sums) {
#ifdef TILEON_CPU_BFLOAT16
  if (block.rows > 1 && fits_bfloat16(problem.a) && fits_bfloat16(problem.b) &&
      multiply_block<Bfloat16Lanes>(problem, block, sums))
    return;
#endif
  multiply_block<FloatLanes>(problem, block, sums);
}

inline void multiply_int8(const Problem& problem, const TileBlock& block, int64_t* sums) {
  multiply_block<Int8Lanes>(problem, block, sums);
}

inline void multiply_float64(const Problem& problem, const TileBlock& block, double* sums) {
  multiply_block<DoubleLanes>(problem, block, sums);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
