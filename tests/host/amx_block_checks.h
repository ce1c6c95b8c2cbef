// Blocks of products by AMX's tile registers against a reference in float64. Included behind cpu/tiles/amx_block.h, of
// which TILEON_CPU_VARIANT is `emulated`: the registers are replaced by arrays that give the same bits.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cpu/dequantize_row.h"
#include "expect.h"

namespace {

using namespace tileon;

// No code of the vectors may run before main() has asked for the processor.
uint32_t below(uint32_t count) {
  static std::mt19937 random_numbers(7);
  return random_numbers() % count;
}

enum class Granularity { kNone, kBytes, kFold, kRow, kBlock };

struct Kind {
  const char* name;
  DType dtype;
  int vec;
  ScaleType type;
  Granularity granularity;
};

constexpr Kind kBfloat16{"bfloat16", DType::kBFloat16, 0, ScaleType::kE8M0, Granularity::kNone};
constexpr Kind kInt8Row{"int8_row", DType::kInt8, kFloat32ScaleBlock, ScaleType::kFloat32, Granularity::kRow};
constexpr Kind kBlocks{"e4m3_block", DType::kFloat8E4M3, kFloat32ScaleBlock, ScaleType::kFloat32, Granularity::kBlock};
constexpr Kind kKinds[] = {
    kBfloat16,
    {"e4m3", DType::kFloat8E4M3, 0, ScaleType::kE8M0, Granularity::kNone},
    {"mxfp8", DType::kFloat8E4M3, 32, ScaleType::kE8M0, Granularity::kBytes},
    {"e5m2", DType::kFloat8E5M2, 32, ScaleType::kE8M0, Granularity::kBytes},
    {"mxfp4", DType::kFloat4E2M1, 32, ScaleType::kE8M0, Granularity::kBytes},
    {"nvfp4", DType::kFloat4E2M1, 16, ScaleType::kE4M3, Granularity::kBytes},
    {"folded mxfp8", DType::kFloat8E4M3, 32, ScaleType::kE8M0, Granularity::kFold},
    {"folded e5m2", DType::kFloat8E5M2, 32, ScaleType::kE8M0, Granularity::kFold},
    {"folded mxfp4", DType::kFloat4E2M1, 32, ScaleType::kE8M0, Granularity::kFold},
    {"e4m3_row", DType::kFloat8E4M3, kFloat32ScaleBlock, ScaleType::kFloat32, Granularity::kRow},
    kInt8Row,
    kBlocks,
};

// Every code that is a number, and scales of usual sizes.
struct TestOperand {
  std::vector<uint8_t> codes, bytes;
  std::vector<float> floats;
  std::vector<int16_t> powers;
  Operand operand;
  int64_t rows, k;

  TestOperand(const Kind& kind, int64_t rows_, int64_t k_) : rows(rows_), k(k_) {
    const int64_t per_byte = elements_per_byte(kind.dtype), size = kind.dtype == DType::kBFloat16 ? 2 : 1;
    codes.resize(rows * (k / per_byte) * size);
    for (uint8_t& byte : codes) byte = static_cast<uint8_t>(below(256));
    for (size_t i = 0; size == 2 && i < codes.size(); i += 2) {
      const uint32_t word = below(2) << 15 | (124 + below(7)) << 7 | below(128);
      codes[i] = static_cast<uint8_t>(word), codes[i + 1] = static_cast<uint8_t>(word >> 8);
    }
    const int last = kind.dtype == DType::kFloat8E4M3 ? 0x7f : kind.dtype == DType::kFloat8E5M2 ? 0x7c : 0x100;
    for (uint8_t& byte : codes) byte = size == 1 && (byte & 0x7f) >= last ? 0 : byte;
    operand.dtype = kind.dtype;
    operand.data = codes.data();
    operand.stride_k = 1;
    operand.stride_mn = k / per_byte;
    if (kind.granularity == Granularity::kNone) return;
    operand.scale.type = kind.type;
    operand.scale.vec = kind.vec;
    const int64_t cols = (k + kind.vec - 1) / kind.vec;
    operand.scale.strides = kind.granularity == Granularity::kRow ? flat_scales(1, 0) : flat_scales(cols, 1);
    if (kind.granularity == Granularity::kFold) {
      powers.resize(rows);
      for (int16_t& power : powers) power = static_cast<int16_t>(static_cast<int>(below(24)) - 6);
      operand.scale.fold_powers = powers.data();
    }
    if (kind.granularity == Granularity::kBytes || kind.granularity == Granularity::kFold) {
      bytes.resize(rows * cols);
      for (uint8_t& byte : bytes)
        byte = static_cast<uint8_t>(kind.type == ScaleType::kE8M0 ? 120 + below(9) : 32 + below(80));
      operand.scale.data = bytes.data();
    } else {
      floats.resize(rows * cols);
      for (float& scale : floats) scale = static_cast<float>(1 + below(1000)) * 1.1e-3f;
      operand.scale.data = floats.data();
      operand.scale.may_wait = is_constant_along_k(operand.scale);
    }
  }

  // Row by row, under the scales that do not wait for the sums.
  std::vector<double> values() const {
    std::vector<double> all(rows * k);
    Operand own = operand;
    if (own.scale.may_wait) own.scale = Scale{};
    for (int64_t r = 0; r < rows; ++r) {
      if (own.dtype != DType::kBFloat16) {
        dequantize_row(own, r, 0, k, 1.0f, all.data() + r * k);
        for (int64_t i = r * k; own.scale.fold_powers != nullptr && i < (r + 1) * k; ++i)
          all[i] = static_cast<float>(all[i]) + kFoldSteps - kFoldSteps;
        continue;
      }
      for (int64_t i = 0; i < k; ++i) {
        const uint8_t* at = codes.data() + (r * k + i) * 2;
        all[r * k + i] = float_of(static_cast<uint32_t>(at[0] | at[1] << 8) << 16);
      }
    }
    return all;
  }
};

Problem problem_of(const TestOperand& a, const TestOperand& b) {
  Problem problem;
  problem.m = a.rows, problem.n = b.rows, problem.k = a.k;
  problem.a = a.operand, problem.b = b.operand;
  return problem;
}

template <typename T>
std::shared_ptr<T> aligned(size_t count) {
  void* memory = ::operator new(count * sizeof(T) + kTileAlignment, std::align_val_t(kTileAlignment));
  memset(memory, 0xff, count * sizeof(T) + kTileAlignment);
  return std::shared_ptr<T>(static_cast<T*>(memory),
                            [](T* at) { ::operator delete(at, std::align_val_t(kTileAlignment)); });
}

// The sums of rows [row, row + rows) and columns [col, col + cols), and what was unusual.
template <typename Sum>
struct BlockSums {
  int cols, stride;
  std::shared_ptr<Sum> of;
  UnusualSums unusual;

  Sum at(int r, int c) const { return of.get()[r * stride + c]; }
};

// Blocks of one row of blocks, one after the other: the second has the first's rows where all of k fits.
template <typename Sum>
std::vector<BlockSums<Sum>> sums_of(const Problem& problem, int64_t row, int rows, int block_cols) {
  constexpr int kBytes = std::is_same_v<Sum, float> ? 2 : 1;
  const auto a_tile = aligned<uint8_t>(kPackedBytes + kPackedBytes / 64 + 4096);
  const auto b_tile = aligned<uint8_t>(kAmxTileCols * tile_row_bytes(kBytes));
  std::vector<BlockSums<Sum>> all;
  UnusualSums unusual;
  for (int64_t col = 0; col < problem.n; col += block_cols) {
    const int cols = static_cast<int>(std::min<int64_t>(problem.n - col, block_cols));
    const int stride = (block_cols + kAmxTileCols - 1) / kAmxTileCols * kAmxTileCols;
    BlockSums<Sum> sums{cols, stride, aligned<Sum>(static_cast<size_t>(rows) * stride), {}};
    const bool has_rows = col > 0 && problem.k <= pass_length(rows, kBytes);
    const TileBlock block{row, col, rows, cols, stride, a_tile.get(), b_tile.get(), has_rows, &unusual};
    if constexpr (std::is_same_v<Sum, float>)
      emulated::multiply_by_registers(problem, block, sums.of.get());
    else
      emulated::multiply_int8_by_registers(problem, block, sums.of.get());
    sums.unusual = unusual;
    all.push_back(sums);
  }
  return all;
}

void sums_are_right(const Kind& of_a, const Kind& of_b, int64_t m, int64_t n, int64_t k) {
  const TestOperand a(of_a, m, k), b(of_b, n, k);
  const std::vector<double> of_rows = a.values(), of_cols = b.values();
  const double bound = (4 + 2 * std::sqrt(static_cast<double>(k))) / (1 << 23);
  constexpr int kBlockCols = 64;
  const auto blocks = sums_of<float>(problem_of(a, b), 0, static_cast<int>(m), kBlockCols);
  bool are_right = true, are_usual_all = true;
  for (int64_t c = 0; c < n; ++c)
    for (int64_t r = 0; r < m; ++r) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product = of_rows[r * k + i] * of_cols[c * k + i];
        sum += product, size += std::fabs(product);
      }
      const auto& block = blocks[c / kBlockCols];
      are_right &= std::fabs(block.at(static_cast<int>(r), static_cast<int>(c % kBlockCols)) - sum) <= bound * size;
      are_usual_all &= block.unusual.rows[r] == 0 && block.unusual.cols[c % kBlockCols] == 0;
    }
  expect(are_right, of_a.name, of_b.name);
  expect(are_usual_all, "all are usual", of_b.name);
}

void codes_of_int8_are_exact() {
  const TestOperand a(kInt8Row, 37, 2200), b(kInt8Row, 40, 2200);
  const auto blocks = sums_of<int64_t>(problem_of(a, b), 0, 37, 64);
  bool are_exact = true;
  for (int r = 0; r < 37; ++r)
    for (int c = 0; c < 40; ++c) {
      int64_t sum = 0;
      for (int i = 0; i < 2200; ++i)
        sum += static_cast<int8_t>(a.codes[r * 2200 + i]) * static_cast<int8_t>(b.codes[c * 2200 + i]);
      are_exact &= blocks[0].at(r, c) == sum;
    }
  expect(are_exact, "int8 sums are exact");
}

// The bits of a row do not hang on the others, on the block's columns, or on whether a pass has all of k.
void a_row_does_not_hang_on_the_others(const Kind& of_b, int64_t k) {
  const TestOperand a(kBfloat16, 256, k), b(of_b, 70, k);
  const Problem problem = problem_of(a, b);
  const auto whole = sums_of<float>(problem, 0, 256, 96);
  for (const auto& [row, rows, cols] : {std::array{0, 1, 32}, std::array{100, 17, 64}, std::array{250, 6, 96}}) {
    const auto part = sums_of<float>(problem, row, rows, cols);
    bool are_same = true;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < 70; ++c)
        are_same &= bits_of(part[c / cols].at(r, c % cols)) == bits_of(whole[0].at(row + r, c));
    expect(are_same, "a row alone has the same bits", of_b.name);
  }
}

// Adjacent columns, and elements that are adjacent along neither.
void layouts_give_the_same_bits() {
  constexpr int kRows = 20, kCols = 70, kK = 544;
  const TestOperand a(kBfloat16, kRows, kK), b(kBfloat16, kCols, kK);
  const Problem problem = problem_of(a, b);
  const auto wanted = sums_of<float>(problem, 0, kRows, 96);
  for (const int apart : {1, 3}) {
    Problem other = problem;
    std::vector<uint16_t> words(kCols * kK * apart);
    const auto* from = static_cast<const uint16_t*>(problem.b.data);
    for (int c = 0; c < kCols; ++c)
      for (int i = 0; i < kK; ++i) words[(i * kCols + c) * apart] = from[c * kK + i];
    other.b.data = words.data();
    other.b.stride_mn = apart, other.b.stride_k = kCols * apart;
    const auto sums = sums_of<float>(other, 0, kRows, 96);
    bool are_same = true;
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c) are_same &= bits_of(sums[0].at(r, c)) == bits_of(wanted[0].at(r, c));
    expect(are_same, "the same bits from another layout");
  }
}

// What the registers lose is named: rows and columns with numbers that are subnormal, huge or not finite, codes that
// are NaN, scales far from 1. Nothing else is.
void unusual_rows_and_columns_are_named() {
  TestOperand a(kBfloat16, 20, 64), b(kKinds[2], 40, 64);
  const auto set = [&](int row, uint16_t word) {
    a.codes[(row * 64 + 5) * 2] = static_cast<uint8_t>(word);
    a.codes[(row * 64 + 5) * 2 + 1] = static_cast<uint8_t>(word >> 8);
  };
  set(3, 1), set(9, 0x7f80), set(17, 0x7000), set(19, 0x0800), set(4, 0), set(5, 0x8000);
  b.codes[7 * 64 + 33] = 0xff;
  b.bytes[12 * 2] = 255, b.bytes[31 * 2 + 1] = 10, b.bytes[39 * 2] = 250;
  const auto blocks = sums_of<float>(problem_of(a, b), 0, 20, 64);
  for (int r = 0; r < 20; ++r)
    expect((blocks[0].unusual.rows[r] != 0) == (r == 3 || r == 9 || r == 17 || r == 19), "unusual rows");
  for (int c = 0; c < 40; ++c)
    expect((blocks[0].unusual.cols[c] != 0) == (c == 7 || c == 12 || c == 31 || c == 39), "unusual columns");
}

void float32_scales_far_from_1_are_named() {
  TestOperand b(kBlocks, 33, 256);
  const TestOperand a(kBfloat16, 2, 256);
  b.floats[5 * 2 + 1] = 1e20f, b.floats[32 * 2] = 0;
  const auto blocks = sums_of<float>(problem_of(a, b), 0, 2, 64);
  for (int c = 0; c < 33; ++c) expect((blocks[0].unusual.cols[c] != 0) == (c == 5 || c == 32), "scales far from 1");
}

bool are_blocks_right() {
  for (const Kind& of_a : kKinds)
    for (const Kind& of_b : kKinds) sums_are_right(of_a, of_b, 18, 70, 544);
  for (const auto& [m, n, k] : {std::array{1, 33, 32}, std::array{33, 32, 2592}, std::array{50, 5, 160}}) {
    sums_are_right(kBfloat16, kKinds[4], m, n, k);
    sums_are_right(kBlocks, kBlocks, m, n, k);
  }
  sums_are_right(kBfloat16, kBfloat16, 5, 11, 77);  // a last group that is not full
  codes_of_int8_are_exact();
  a_row_does_not_hang_on_the_others(kKinds[4], 2592);
  a_row_does_not_hang_on_the_others(kBlocks, 288);
  layouts_give_the_same_bits();
  unusual_rows_and_columns_are_named();
  float32_scales_far_from_1_are_named();
  return failures == 0;
}

}  // namespace
