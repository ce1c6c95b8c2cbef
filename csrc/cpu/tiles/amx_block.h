// A block of a product by the tile registers of AMX. Rows of `b` are filled as for the vector code, and are the first
// operand of the registers' product as they lie there. The second operand wants four bytes of each row side by side:
// rows of `a` are packed so, once for all columns. A register of sums thus has the output's columns as its rows, and is
// turned where it is added.
//
// Of every 32 elements along k a sum is made of the even ones and of the odd ones, each from 0 by fused multiply-adds;
// the two are added, then to the sum of the run of kAmxRun elements, then to that of the runs before. Where float32
// scales change along k, the sum of each block is made so, and its scales' multiple added to the run's. The order
// depends neither on the block nor on the number of rows.
#pragma once

#include "cpu/tiles/amx_registers.h"
#include "cpu/tiles/fill.h"
#include "cpu/tiles/square.h"
#if TILEON_CPU_WIDTH == 16
#include "cpu/tiles/amx_fill.h"
#endif

namespace tileon {
namespace TILEON_CPU_VARIANT {

static_assert(kAmxTileCols == 2 * kSide && kAmxRows % (2 * kSide) == 0);

// ---- kinds of products ----

// Elements that are exact in bfloat16; sums in float32.
struct Bfloat16Products {
  using Element = uint16_t;
  using Sum = float;
  static constexpr bool kIsExact = false;

  template <int kSums, int kRows, int kColumns>
  static void add(TileRegisters& registers) {
    registers.add_products_of_bfloat16<kSums, kRows, kColumns>();
  }
};

// Codes of int8; sums in int32, which hold a run's.
struct Int8Products {
  using Element = int8_t;
  using Sum = int64_t;
  static constexpr bool kIsExact = true;

  template <int kSums, int kRows, int kColumns>
  static void add(TileRegisters& registers) {
    registers.add_products_of_int8<kSums, kRows, kColumns>();
  }
};

template <typename Products>
constexpr int kTileRowBytes = tile_row_bytes(sizeof(typename Products::Element));
template <typename Products>
constexpr int kStep = kStepBytes / static_cast<int>(sizeof(typename Products::Element));  // along k, of a register
template <typename Products>
constexpr int kChunkSteps = kChunk / kStep<Products>;

template <typename Products>
int steps_of(int count) {
  return (count + kStep<Products> - 1) / kStep<Products>;
}

// ---- rows of an operand ----

#if TILEON_CPU_WIDTH == 16
inline bool fill_by_tables(const Operand& operand, const TilePart& part, uint16_t* to) {
  return with_codes(operand.dtype, [&](auto element) { return decode_by_tables<element()>(operand, part, to); });
}
#else
inline bool fill_by_tables(const Operand&, const TilePart&, uint16_t*) { return false; }
#endif

// Elements of up to kTileCols rows, and zeros behind them up to a whole step. False where a row has something that is
// no number of a usual size; what is there then is not to be used.
inline bool fill_rows(const Operand& operand, const TilePart& part, uint16_t* to) {
  Magnitudes magnitudes;
  return fill_by_tables(operand, part, to) ||
         (fill_tile(operand, part, TileOrder::kPairs, to, &magnitudes) && are_usual(magnitudes));
}

inline bool fill_rows(const Operand& operand, const TilePart& part, int8_t* to) {
  PartBuffer<uint8_t> buffer;
  const auto codes = adjacent_codes<DType::kInt8>(operand, part, buffer);
  for (int r = 0; r < part.rows; ++r, to += tile_row_bytes(1)) {
    memcpy(to, codes.row[r], part.count);
    memset(to + part.count, 0, steps_of<Int8Products>(part.count) * kStepBytes - part.count);
  }
  return true;
}

// kTileCols rows, one by one where some of them are unusual: is_unusual[i] is set for each of these.
template <typename Element>
void fill_some_rows(const Operand& operand, const TilePart& part, Element* to, uint8_t* is_unusual) {
  constexpr int kRowElements = tile_row_bytes(sizeof(Element)) / static_cast<int>(sizeof(Element));
  if (fill_rows(operand, part, to)) return;
  for (int i = 0; i < part.rows; ++i)
    if (!fill_rows(operand, {part.row + i, 1, part.k, part.count}, to + i * kRowElements)) is_unusual[i] = 1;
}

// The rows of a register; `are_lines`: the operand is a copy of adjacent columns, 16 of which may be read.
template <typename Products>
void fill_rows_of_register(const Operand& operand, const TilePart& part, bool are_lines, typename Products::Element* to,
                           uint8_t* is_unusual) {
  constexpr int kRowElements = kTileRowBytes<Products> / static_cast<int>(sizeof(*to));
  for (int r = part.rows; r < kSide; ++r) memset(to + r * kRowElements, 0, steps_of<Products>(part.count) * kStepBytes);
#if TILEON_CPU_WIDTH == 16
  if constexpr (!Products::kIsExact) {
    if (operand.dtype == DType::kBFloat16)
      return are_lines ? turn_lines(operand, part, to, is_unusual) : copy_words(operand, part, to, is_unusual);
  }
#endif
  static_cast<void>(are_lines);
  for (int r = 0; r < part.rows; r += kTileCols)
    fill_some_rows(operand, {part.row + r, part.rows - r < kTileCols ? part.rows - r : kTileCols, part.k, part.count},
                   to + r * kRowElements, is_unusual + r);
}

// ---- rows of `a`, packed ----

// float32 scales of blocks along k, which the sums of a block are multiplied by: no operand's element times such a
// scale fits bfloat16. 1 where the operand has none.
inline float scale_of_block(const Scale& scale, int64_t row, int64_t k) {
  if (!changes_along_k(scale)) return 1;
  const ScaleStrides& strides = scale.strides;
  return static_cast<const float*>(scale.data)[strides.of_row(row) + strides.of_col(k / kFloat32ScaleBlock)];
}

// What a block's a_tile holds: registers of [16 rows][chunk][step]; for each 128 elements along k the rows' scales.
template <typename Products>
class PackedRows {
 public:
  PackedRows(const TileBlock& block, int64_t count)
      : registers_(block.a_tile),
        chunks_((count + kChunk - 1) / kChunk),
        scales_stride_(in_registers(block.rows)),
        scales_(reinterpret_cast<float*>(block.a_tile + packed_bytes(block.rows, count, kElementBytes))) {}

  uint8_t* chunk(int row, int64_t number) const {
    return registers_ + (row / kSide * chunks_ + number) * kChunkSteps<Products> * kRegisterBytes;
  }
  const float* scales(int64_t k) const { return scales_ + k / kFloat32ScaleBlock * scales_stride_; }

  void fill(const Problem& problem, const TileBlock& block, const TilePass& pass) {
    alignas(kTileAlignment) typename Products::Element rows[kSide * kTileRowBytes<Products> / kElementBytes];
    for (int r = 0; r < block.rows; r += kSide)
      for (int64_t k = 0; k < pass.count; k += kChunk) {
        const int count = block.rows - r < kSide ? block.rows - r : kSide;
        const TilePart part{block.row + r, count, pass.k + k, pass.chunk(k)};
        fill_rows_of_register<Products>(problem.a, part, false, rows, block.unusual->rows + r);
        pack(reinterpret_cast<const uint8_t*>(rows), steps_of<Products>(part.count), chunk(r, k / kChunk));
      }
    if (!scales_blocks(problem)) return;
    for (int64_t k = 0; k < pass.count; k += kFloat32ScaleBlock)
      for (int64_t r = 0; r < scales_stride_; ++r)
        scales_[k / kFloat32ScaleBlock * scales_stride_ + r] =
            r < block.rows ? scale_of_block(problem.a.scale, block.row + r, pass.k + k) : 0;
  }

 private:
  static constexpr int kElementBytes = sizeof(typename Products::Element);

  static void pack(const uint8_t* rows, int steps, uint8_t* to) {
    auto* squares = reinterpret_cast<Square*>(to);
    for (int step = 0; step < steps; ++step)
      turn(rows + step * kStepBytes, kTileRowBytes<Products>, squares[step].bytes(), kStepBytes);
  }

  uint8_t* registers_;
  int64_t chunks_, scales_stride_;
  float* scales_;
};

// ---- sums ----

// Sums of kSide rows by kAmxTileCols columns, each half as a register has it.
struct SquarePair {
  Square of_cols[kAmxTileCols / kSide];
};

// Adds to the sums of a panel's columns by kRowTiles x 16 rows, `steps` long. Registers 0 to 3: sums; 4 and 5: rows of
// b; 6 and 7: packed rows of a, which come from the L2 cache and shall not drive the panel out of L1.
template <typename Products, int kRowTiles>
void multiply_registers(TileRegisters& registers, const uint8_t* b, const uint8_t* a, int64_t a_stride, int steps,
                        bool is_first, SquarePair* sums) {
  constexpr int kStride = kTileRowBytes<Products>;
  if (is_first) {
    registers.clear<0>(), registers.clear<2>();
    if constexpr (kRowTiles == 2) registers.clear<1>(), registers.clear<3>();
  } else {
    registers.load<0>(sums[0].of_cols[0].bytes(), kStepBytes),
        registers.load<2>(sums[0].of_cols[1].bytes(), kStepBytes);
    if constexpr (kRowTiles == 2)
      registers.load<1>(sums[1].of_cols[0].bytes(), kStepBytes),
          registers.load<3>(sums[1].of_cols[1].bytes(), kStepBytes);
  }
  for (int step = 0; step < steps; ++step, b += kStepBytes, a += kRegisterBytes) {
    registers.load<4>(b, kStride);
    registers.load_once<6>(a, kStepBytes);
    Products::template add<0, 4, 6>(registers);
    registers.load<5>(b + kSide * kStride, kStride);
    Products::template add<2, 5, 6>(registers);
    if constexpr (kRowTiles == 2) {
      registers.load_once<7>(a + a_stride, kStepBytes);
      Products::template add<1, 4, 7>(registers);
      Products::template add<3, 5, 7>(registers);
    }
  }
  registers.store<0>(sums[0].of_cols[0].bytes()), registers.store<2>(sums[0].of_cols[1].bytes());
  if constexpr (kRowTiles == 2)
    registers.store<1>(sums[1].of_cols[0].bytes()), registers.store<3>(sums[1].of_cols[1].bytes());
}

// sums[r][c] += the register's [c][r], for the first `rows`. are_none: there are no sums yet, which is 0.
inline void add_turned(const Square& square, bool are_none, int rows, float* sums, int stride) {
  Square turned;
  turn(square.bytes(), kStepBytes, turned.bytes(), kStepBytes);
  for (int r = 0; r < rows; ++r, sums += stride)
    for (int part = 0; part < kParts; ++part) {
      FloatVec& to = reinterpret_cast<FloatVec*>(sums)[part];
      to = (are_none ? FloatVec{} : to) + reinterpret_cast<const FloatVec*>(turned.of[r])[part];
    }
}

inline void add_turned(const Square& square, bool are_none, int rows, int64_t* sums, int stride) {
  Square turned;
  turn(square.bytes(), kStepBytes, turned.bytes(), kStepBytes);
  for (int r = 0; r < rows; ++r, sums += stride)
    for (int c = 0; c < kSide; ++c) sums[c] = (are_none ? 0 : sums[c]) + static_cast<int32_t>(turned.of[r][c]);
}

// to[c][r] += the register's [c][r], times both scales.
inline void add_scaled(const Square& square, const float* of_rows, const float* of_cols, bool are_none, Square& to) {
  for (int c = 0; c < kSide; ++c)
    for (int part = 0; part < kParts; ++part) {
      FloatVec& sums = reinterpret_cast<FloatVec*>(to.of[c])[part];
      sums = fused(reinterpret_cast<const FloatVec*>(square.of[c])[part],
                   reinterpret_cast<const FloatVec*>(of_rows)[part] * of_cols[c], are_none ? FloatVec{} : sums);
    }
}

// ---- a block ----

template <typename Products>
class BlockByRegisters {
 public:
  BlockByRegisters(const Problem& problem, const TileBlock& block, typename Products::Sum* sums)
      : problem_(problem), block_(block), sums_(sums) {}

  void run() {
    if (problem_.k == 0) memset(sums_, 0, sizeof(*sums_) * block_.rows * block_.sums_stride);
    if (!block_.has_rows) memset(block_.unusual->rows, 0, sizeof(block_.unusual->rows));
    memset(block_.unusual->cols, 0, sizeof(block_.unusual->cols));
    const int64_t length = pass_length(block_.rows, sizeof(typename Products::Element));
    for (int64_t begin = 0; begin < problem_.k; begin += length) {
      const TilePass pass{begin, problem_.k - begin < length ? problem_.k - begin : length};
      PackedRows<Products> packed(block_, pass.count);
      if (!block_.has_rows) packed.fill(problem_, block_, pass);
      add_columns(packed, pass);
    }
  }

 private:
  static constexpr int kCopiedPanels = 2;  // of adjacent columns: a line of bytes, two lines of words
  static constexpr int kRowElements = kTileRowBytes<Products> / static_cast<int>(sizeof(typename Products::Element));

  void add_columns(const PackedRows<Products>& packed, const TilePass& pass) {
    const bool is_copied = problem_.b.scale.vec == 0 && has_adjacent_columns(problem_.b);
    const int width = is_copied ? kCopiedPanels * kAmxTileCols : kAmxTileCols;
    for (int c = 0; c < block_.cols; c += width)
      for (int64_t k = 0; k < pass.count; k += kChunk) {
        const TilePart part{block_.col + c, block_.cols - c < width ? block_.cols - c : width, pass.k + k,
                            pass.chunk(k)};
        if (!is_copied) {
          add_part(packed, problem_.b, part, pass, k, c, 0);
          continue;
        }
        const Operand lines = copied_lines(problem_.b, part, lines_);
        for (int i = 0; i < part.rows; i += kAmxTileCols)
          add_part(packed, lines, {i, part.rows - i < kAmxTileCols ? part.rows - i : kAmxTileCols, 0, part.count}, pass,
                   k, c + i, i / kAmxTileCols);
      }
  }

  // Rows `part` of `b`, columns of the block from `col` on, k elements behind the begin of the pass; `number` of the
  // panels that are filled in turn.
  void add_part(const PackedRows<Products>& packed, const Operand& b, const TilePart& part, const TilePass& pass,
                int64_t k, int col, int number) {
    auto* panel = reinterpret_cast<typename Products::Element*>(block_.b_tile);
    for (int r = 0; r < kAmxTileCols; r += kSide) {
      const int rows = part.rows - r < kSide ? (part.rows < r ? 0 : part.rows - r) : kSide;
      fill_rows_of_register<Products>(b, {part.row + r, rows, part.k, part.count}, b.data == lines_.of,
                                      panel + r * kRowElements, block_.unusual->cols + col + r);
    }
    const bool is_first = k % kAmxRun == 0, is_last = k + kChunk >= pass.count || (k + kChunk) % kAmxRun == 0;
    const int steps = steps_of<Products>(part.count);
    if (scales_blocks(problem_))
      multiply_scaled(packed, b, part, k, is_first);
    else
      multiply(packed, k, 0, steps, is_first, squares_[number]);
    if (is_last) turn_sums(scales_blocks(problem_) ? scaled_ : squares_[number], pass.k + k < kAmxRun, col);
  }

  // squares += all rows of the block times the panel, `steps` from `step` of the chunk at `k` on.
  void multiply(const PackedRows<Products>& packed, int64_t k, int step, int steps, bool is_first,
                SquarePair* squares) {
    const uint8_t* panel = block_.b_tile + step * kStepBytes;
    const uint8_t* a = packed.chunk(0, k / kChunk) + step * kRegisterBytes;
    const int64_t stride = packed.chunk(kSide, 0) - packed.chunk(0, 0);
    int tile = 0;
    for (; (tile + 1) * kSide < block_.rows; tile += 2, a += 2 * stride)
      multiply_registers<Products, 2>(registers_, panel, a, stride, steps, is_first, squares + tile);
    if (tile * kSide < block_.rows)
      multiply_registers<Products, 1>(registers_, panel, a, stride, steps, is_first, squares + tile);
  }

  // scaled_ += the same, block by block of the scales.
  void multiply_scaled(const PackedRows<Products>& packed, const Operand& b, const TilePart& part, int64_t k,
                       bool is_first) {
    constexpr int kBlockSteps = kFloat32ScaleBlock / kStep<Products>;
    const int steps = steps_of<Products>(part.count);
    for (int step = 0; step < steps; step += kBlockSteps) {
      float of_cols[kAmxTileCols] = {};
      for (int c = 0; c < part.rows; ++c)
        of_cols[c] = scale_of_block(b.scale, part.row + c, part.k + step * kStep<Products>);
      const float* of_rows = packed.scales(k + step * kStep<Products>);
      multiply(packed, k, step, steps - step < kBlockSteps ? steps - step : kBlockSteps, true, squares_[0]);
      for (int row = 0; row < block_.rows; row += kSide)
        for (int c = 0; c < kAmxTileCols; c += kSide)
          add_scaled(squares_[0][row / kSide].of_cols[c / kSide], of_rows + row, of_cols + c, is_first && step == 0,
                     scaled_[row / kSide].of_cols[c / kSide]);
    }
  }

  // are_none: this run is the first of all.
  void turn_sums(const SquarePair* sums, bool are_none, int col) {
    for (int row = 0; row < block_.rows; row += kSide)
      for (int c = 0; c < kAmxTileCols; c += kSide)
        add_turned(sums[row / kSide].of_cols[c / kSide], are_none,
                   block_.rows - row < kSide ? block_.rows - row : kSide,
                   sums_ + static_cast<int64_t>(row) * block_.sums_stride + col + c, block_.sums_stride);
  }

  const Problem& problem_;
  const TileBlock& block_;
  typename Products::Sum* sums_;
  TileRegisters registers_;
  SquarePair squares_[kCopiedPanels][kAmxRows / kSide], scaled_[kAmxRows / kSide];
  PanelLines lines_;
};

// Scales of blocks along k wait for the sums of their block.
inline Problem with_waiting_scales(const Problem& given) {
  Problem problem = given;
  problem.a.scale.may_wait |= changes_along_k(problem.a.scale);
  problem.b.scale.may_wait |= changes_along_k(problem.b.scale);
  return problem;
}

inline void multiply_by_registers(const Problem& problem, const TileBlock& block, float* sums) {
  const Problem waiting = with_waiting_scales(problem);
  BlockByRegisters<Bfloat16Products>(waiting, block, sums).run();
}

inline void multiply_int8_by_registers(const Problem& problem, const TileBlock& block, int64_t* sums) {
  BlockByRegisters<Int8Products>(problem, block, sums).run();
}

}  // namespace TILEON_CPU_VARIANT
}  // namespace tileon
