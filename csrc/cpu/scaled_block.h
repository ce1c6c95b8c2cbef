// A block of a scaled product's output: what the threads of scaled_products.cpp hand to the vector code, which is
// compiled once for each kind of processor (scaled_baseline.cpp, scaled_avx2.cpp, scaled_avx512.cpp).
//
// The order of a sum is part of the contract between these versions: they give the same bits. Of every 32 elements
// along k, lane i of 16 takes 2 i + 1 and then 2 i, each by one fused multiply-add; after kChunk elements the lanes are
// added as a tree, i with i + 8, + 4, + 2, + 1, and then to the sum of the chunks before, in float32. It depends
// neither on the block, nor on the number of rows, nor on that of threads.
//
// The error, in units of sum |a||b|: an element goes through 2 kChunk / 32 + 4 + k / kChunk roundings at most, each of
// 2^-24, and each operand's element through one more where its scale is float32. That is below (4 + 2 sqrt k) 2^-23 for
// k up to 2^22.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon {

constexpr int kGroup = 32;                      // elements along k that the lanes take in one step
constexpr int kChunk = 512;                     // elements along k of a tile: 2 KB a row as float32
constexpr int kTileCols = 8;                    // rows of b that are decoded at a time: 16 KB, in the L1 cache
constexpr int kTileRows = 128;                  // rows of a in a block: 264 KB as float32, in the L2 cache
constexpr int kTileAlignment = 64;              // bytes: a cache line, and the widest vector
constexpr int kTileRowBytes = kChunk * 4 + 64;  // rows that are a power of two apart would share the lines of a cache

// Output rows [row, row + rows) x columns [col, col + cols).
struct ScaledBlock {
  int64_t row, col;
  int rows, cols;   // at most kTileRows rows
  int sums_stride;  // from row to row of the sums: a multiple of kTileCols, not below cols
  uint8_t* a_tile;  // [kTileRows][kTileRowBytes], of kTileAlignment
  uint8_t* b_tile;  // [kTileCols][kTileRowBytes], likewise
};

constexpr bool is_int8_product(const Problem& problem) {
  return problem.a.dtype == DType::kInt8 && problem.b.dtype == DType::kInt8;
}

// The functions of one version of the vector code. sums: [rows][sums_stride] of a block; they write all of it.
struct ScaledKernels {
  const char* tiles_name;  // for the kernel log
  const char* row_name;    // where `a` has a single row
  void (*multiply)(const Problem& problem, const ScaledBlock& block, float* sums);
  void (*multiply_int8)(const Problem& problem, const ScaledBlock& block, int64_t* sums);  // of the codes
};

extern const ScaledKernels kBaselineKernels, kAvx2Kernels, kAvx512Kernels;

// Elements [begin, begin + count) of a row, each times its scale, in the order of a tile (decode_tile_row says which):
// whatever the codes and the scales are. The vector code does those that are numbers under scales of a usual size.
void decode_exactly(const Operand& operand, int64_t row, int64_t begin, int count, float* to);

// Where element i of a chunk stands in a tile of float32: the odd ones of a group first, then the even ones.
constexpr int tile_index(int i) { return i / kGroup * kGroup + (i % 2 == 0 ? kGroup / 2 : 0) + i % kGroup / 2; }
static_assert(tile_index(0) == 16 && tile_index(1) == 0 && tile_index(31) == 15 && tile_index(32) == 48);

}  // namespace tileon
