// A block of a product's output: what the threads of multiply.cpp hand to the vector code, which is compiled once for
// each kind of processor (baseline.cpp, avx2.cpp, avx512.cpp, avx512_bf16.cpp).
//
// The order of a sum is part of the contract between these versions: they give the same bits. Of every 32 elements
// along k, lane i of 16 takes two, each by one fused multiply-add: 2 i + 1 and then 2 i; of float32 and float16 pairs,
// which nothing decodes, i and then i + 16. After kChunk elements the lanes are added as a tree, i with i + 8, + 4, +
// 2, + 1, and then to the sum of the chunks before. float64 has 8 lanes, which take i, i + 8, i + 16 and i + 24. The
// order depends neither on the block, nor on the number of rows, nor on that of threads.
//
// The error of float32 sums, in units of sum |a||b|: an element goes through 2 kChunk / 32 + 4 + k / kChunk roundings
// at most, each of 2^-24, and each operand's element through one more where its scale is float32. That is below (4 + 2
// sqrt k) 2^-23 for k up to 2^21.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace tileon {

constexpr int kGroup = 32;                     // elements along k that the lanes take in one step
constexpr int kChunk = 512;                    // elements along k of a tile
constexpr int kTileCols = 8;                   // rows of b in a tile: 16 KB as float32, in the L1 cache
constexpr int kTileRows = 128;                 // rows of a in a block: 270 KB as float32, in the L2 cache
constexpr int kMaxBlockCols = 32 * kTileCols;  // of a block
constexpr int kTileAlignment = 64;             // bytes: a cache line, and the widest vector

// Bytes from row to row of a tile: rows that are a power of two apart would share the lines of a cache.
constexpr int tile_row_bytes(int element_bytes) { return kChunk * element_bytes + kTileAlignment; }

// Output rows [row, row + rows) x columns [col, col + cols) of one matrix of the batch.
struct TileBlock {
  int64_t row, col;
  int rows, cols;   // at most kTileRows rows
  int sums_stride;  // from row to row of the sums: a multiple of kTileCols, not below cols
  uint8_t* a_tile;  // kTileRows rows, of kTileAlignment: those of the block, of as many chunks as there is place for
  uint8_t* b_tile;  // kTileCols rows, likewise
};

constexpr bool is_int8_product(const Problem& problem) {
  return problem.a.dtype == DType::kInt8 && problem.b.dtype == DType::kInt8;
}

// float32 scales that are one for all of k, which may be applied to the sums.
constexpr bool is_constant_along_k(const Scale& scale) {
  return scale.vec != 0 && scale.type == ScaleType::kFloat32 && scale.strides.col == 0;
}

// The magnitudes of some elements of at most 8 bits, as the bits of float32; zeros do not count.
struct Magnitudes {
  uint32_t least = 0x7f800000u, most = 0;

  constexpr void add(const Magnitudes& other) {
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
  }
};

// Whether no element is subnormal, no product of two leaves the range of float32, and no sum of such products falls
// below its normal numbers: these sums are multiples of 2^(the two least exponents - 14).
constexpr bool are_products_normal(const Magnitudes& a, const Magnitudes& b) {
  constexpr int kBias = 127;
  if (a.least >> 23 == 0 || b.least >> 23 == 0) return false;
  const int least = static_cast<int>(a.least >> 23) + static_cast<int>(b.least >> 23) - 2 * kBias;
  const int most = static_cast<int>(a.most >> 23) + static_cast<int>(b.most >> 23) - 2 * kBias;
  return least - 14 >= -126 && most <= 120;
}
static_assert(are_products_normal({0x3f800000u, 0x3f800000u}, {}), "zeros alone");
static_assert(!are_products_normal({1u << 16, 1u << 16}, {0x6f800000u, 0x6f800000u}), "a subnormal number");

// Whether a scale that may wait does: one of a usual size. Others go with their elements.
constexpr bool waits_for_sums(const Scale& scale, uint32_t bits) {
  constexpr uint32_t kLeast = (127 - 40) << 23, kMost = (127 + 40) << 23;
  return scale.may_wait && (bits & 0x7fffffffu) >= kLeast && (bits & 0x7fffffffu) <= kMost;
}

// The functions of one version of the vector code. sums: [rows][sums_stride] of a block; they write all of it.
struct TileKernels {
  const char* tiles_name;  // for the kernel log
  const char* row_name;    // where `a` has a single row
  void (*multiply)(const Problem& problem, const TileBlock& block, float* sums);
  void (*multiply_int8)(const Problem& problem, const TileBlock& block, int64_t* sums);  // of the codes
  void (*multiply_float64)(const Problem& problem, const TileBlock& block, double* sums);
};

extern const TileKernels kBaselineKernels, kAvx2Kernels, kAvx512Kernels, kAvx512Bfloat16Kernels;

// Elements [begin, begin + count) of a row, each times its scale, in the order of a tile (tile_index): whatever the
// codes and the scales are. The vector code does those that are numbers under scales of a usual size.
void decode_exactly(const Operand& operand, int64_t row, int64_t begin, int count, float* to);

// Where element i of a chunk of codes stands in a tile of float32: the odd ones of a group first, then the even ones.
constexpr int tile_index(int i) { return i / kGroup * kGroup + (i % 2 == 0 ? kGroup / 2 : 0) + i % kGroup / 2; }
static_assert(tile_index(0) == 16 && tile_index(1) == 0 && tile_index(31) == 15 && tile_index(32) == 48);

}  // namespace tileon
