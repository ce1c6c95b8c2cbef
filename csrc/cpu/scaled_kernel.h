// A block of a scaled product by 16 lanes along k: tiles are filled, rows of `a` times rows of `b` summed up.
#pragma once

#include "cpu/scaled_rows.h"

namespace tileon {
namespace TILEON_CPU_VARIANT {

constexpr bool kManyRegisters = TILEON_CPU_REGISTERS == 32;
constexpr int kSumCols = 4;  // of which the registers hold the sums of some rows; of a single row those of a tile
static_assert(kTileCols % kSumCols == 0);

// float32: a fused multiply-add of the odd elements, then of the even ones.
struct FloatLanes {
  using Element = float;
  using Sum = float;
  using Vec = FloatVec;
  using Quarter = Floats4;
  static constexpr int kVecsPerGroup = 2;  // of each part
  static constexpr int kRows = kManyRegisters ? 6 : 3;

  static void add_product(const Vec& a, const Vec& b, Vec& sum) { sum = fused(a, b, sum); }
};

// int8 as words of 16 bits: a chunk adds up to 2^20 in a lane at most.
struct Int8Lanes {
  using Element = int16_t;
  using Sum = int64_t;
  using Vec = IntVec;
  using Quarter = Ints4;
  static constexpr int kVecsPerGroup = 1;
  static constexpr int kRows = kManyRegisters ? 5 : 2;  // a product needs a register too

  static void add_product(const Vec& a, const Vec& b, Vec& sum) { sum = add_pairs(a, b, sum); }
};

template <typename Lanes>
constexpr int kGroupBytes = Lanes::kVecsPerGroup* kLanes * 4;

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
      for (int r = 0; r < kRows; ++r) a_vec[r] = *reinterpret_cast<const Vec*>(a_part + r * kTileRowBytes);
#pragma GCC unroll 8
      for (int c = 0; c < kCols; ++c) {
        const Vec b_vec = *reinterpret_cast<const Vec*>(b_part + c * kTileRowBytes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) Lanes::add_product(a_vec[r], b_vec, lanes[r][c][p]);
      }
    }
  }
  using Quarter = typename Lanes::Quarter;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kCols; c += 4) {
      const Quarter four = sum_quarters(sum_to_four<Quarter>(lanes[r][c]), sum_to_four<Quarter>(lanes[r][c + 1]),
                                        sum_to_four<Quarter>(lanes[r][c + 2]), sum_to_four<Quarter>(lanes[r][c + 3]));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sums[r * stride + c + i] += four[i];
    }
}

// All rows of the block times the columns of the tile.
template <typename Lanes>
void add_tile_products(const ScaledBlock& block, int groups, typename Lanes::Sum* sums) {
  const uint8_t* a = block.a_tile;
  constexpr int kRows = Lanes::kRows;
  const int stride = block.sums_stride;
  int row = 0;
  for (; row + kRows <= block.rows; row += kRows, a += kRows * kTileRowBytes, sums += kRows * stride)
    for (int c = 0; c < kTileCols; c += kSumCols)
      add_dot_products<Lanes, kRows, kSumCols>(a, block.b_tile + c * kTileRowBytes, groups, sums + c, stride);
  for (; row < block.rows; ++row, a += kTileRowBytes, sums += stride)
    add_dot_products<Lanes, 1, kTileCols>(a, block.b_tile, groups, sums, stride);
}

// The columns of one tile: `part` names their rows of `b`. sums: those of the tile's first column on.
template <typename Lanes>
void add_tile(const Operand& b, const ScaledBlock& block, const TilePart& part, typename Lanes::Sum* sums) {
  fill_tile(b, part, reinterpret_cast<typename Lanes::Element*>(block.b_tile));
  for (int i = part.rows; i < kTileCols; ++i)
    memset(block.b_tile + i * kTileRowBytes, 0, part.groups() * kGroupBytes<Lanes>);
  add_tile_products<Lanes>(block, part.groups(), sums);
}

// As add_tile, of a block that has a single row.
inline void add_row(const Operand& b, const ScaledBlock& block, const TilePart& part, float* sums) {
  const float* a = reinterpret_cast<const float*>(block.a_tile);
  int c = 0;
  for (; c + kRowCols <= part.rows; c += kRowCols)
    if (!add_row_products(b, {part.row + c, kRowCols, part.k, part.count}, a, sums + c)) break;
  for (; c < part.rows; c += kRowCols) {  // a tile takes what is left, kRowCols columns at a time
    const int cols = part.rows - c < kRowCols ? part.rows - c : kRowCols;
    float tile_sums[kTileCols] = {};
    memcpy(tile_sums, sums + c, cols * sizeof(float));
    add_tile<FloatLanes>(b, block, {part.row + c, cols, part.k, part.count}, tile_sums);
    memcpy(sums + c, tile_sums, cols * sizeof(float));
  }
}

// Chunks of the block's rows of `a` that the tile has place for. Of few rows those are many: a row of `b` is then read
// from its begin to its end, as the processor's prefetching has it.
inline int chunks_at_a_time(const ScaledBlock& block) { return kTileRows / block.rows; }

// The block's columns times chunks of `a` that are in its tile, `pass.count` elements along k from `pass.k`.
template <typename Lanes>
void add_columns(const Operand& b, const ScaledBlock& block, const TilePass& pass, typename Lanes::Sum* sums) {
  for (int c = 0; c < block.cols; c += kTileCols) {
    const int cols = block.cols - c < kTileCols ? block.cols - c : kTileCols;
    ScaledBlock chunk = block;
    for (int64_t k = 0; k < pass.count; k += kChunk, chunk.a_tile += block.rows * kTileRowBytes) {
      const TilePart part{block.col + c, cols, pass.k + k, pass.chunk(k)};
      if constexpr (std::is_same_v<Lanes, FloatLanes>) {
        if (block.rows == 1) {
          add_row(b, chunk, part, sums + c);
          continue;
        }
      }
      add_tile<Lanes>(b, chunk, part, sums + c);
    }
  }
}

template <typename Lanes>
void multiply_block(const Problem& problem, const ScaledBlock& block, typename Lanes::Sum* sums) {
  using Element = typename Lanes::Element;
  memset(sums, 0, sizeof(*sums) * block.rows * block.sums_stride);
  const int64_t step = static_cast<int64_t>(chunks_at_a_time(block)) * kChunk;
  for (int64_t begin = 0; begin < problem.k; begin += step) {
    const TilePass pass{begin, problem.k - begin < step ? problem.k - begin : step};
    uint8_t* a_tile = block.a_tile;
    for (int64_t k = 0; k < pass.count; k += kChunk, a_tile += block.rows * kTileRowBytes)
      for (int r = 0; r < block.rows; r += kTileCols) {
        const int rows = block.rows - r < kTileCols ? block.rows - r : kTileCols;
        fill_tile(problem.a, {block.row + r, rows, begin + k, pass.chunk(k)},
                  reinterpret_cast<Element*>(a_tile + r * kTileRowBytes));
      }
    add_columns<Lanes>(problem.b, block, pass, sums);
  }
}

inline void multiply(const Problem& problem, const ScaledBlock& block, float* sums) {
  multiply_block<FloatLanes>(problem, block, sums);
}

inline void multiply_int8(const Problem& problem, const ScaledBlock& block, int64_t* sums) {
  multiply_block<Int8Lanes>(problem, block, sums);
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
