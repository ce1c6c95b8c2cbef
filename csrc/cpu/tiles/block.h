// A block of a product's output: what the threads of multiply.cpp hand to the vector code, which is compiled once for
// each kind of processor (baseline.cpp, avx2.cpp, avx512.cpp, avx512_bf16.cpp), or to the tile registers of AMX
// (amx.cpp).
//
// The order of a sum is part of the contract between the versions of the vector code: they give the same bits. Of
// every 32 elements along k, lane i of 16 takes two, each by one fused multiply-add: 2 i + 1 and then 2 i; of float32
// and float16 pairs, which nothing decodes, i and then i + 16. After kChunk elements the lanes are added as a tree, i
// with i + 8, + 4, + 2, + 1, and then to the sum of the chunks before. float64 has 8 lanes, which take i, i + 8, i + 16
// and i + 24. The order depends neither on the block, nor on the number of rows, nor on that of threads. AMX's
// registers have another one (amx_block.h).
//
// The error of float32 sums, in units of sum |a||b|: an element goes through 2 kChunk / 32 + 4 + k / kChunk roundings
// at most, each of 2^-24, and each operand's element through one more where its scale is float32. That is below (4 + 2
// sqrt k) 2^-23 for k up to 2^21. In AMX's order it goes through min(k, 32) / 2 + 1 + min(k, kAmxRun) / 32 + k /
// kAmxRun at most, which is below that bound too.
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

// Of blocks by AMX's registers, of which each has 16 rows of 64 bytes.
constexpr int kAmxRows = 256;          // of a in a block
constexpr int kAmxCols = 512;          // of a block
constexpr int kAmxTileCols = 32;       // rows of b in a tile: 34 KB, in the L1 cache
constexpr int kAmxRun = 4 * kChunk;    // elements along k that a register sums up
constexpr int kPackedBytes = 1 << 20;  // of packed rows of a, in the L2 cache

constexpr int64_t in_registers(int64_t rows) { return (rows + 15) / 16 * 16; }

// Elements along k, in whole runs, for which packed rows have place.
constexpr int64_t pass_length(int64_t rows, int element_bytes) {
  return kPackedBytes / (in_registers(rows) * kAmxRun * element_bytes) * kAmxRun;
}
static_assert(pass_length(kAmxRows, 2) > 0);

constexpr int64_t packed_bytes(int64_t rows, int64_t count, int element_bytes) {
  return in_registers(rows) * ((count + kChunk - 1) / kChunk) * kChunk * element_bytes;
}

// Bytes from row to row of a tile: rows that are a power of two apart would share the lines of a cache.
constexpr int tile_row_bytes(int element_bytes) { return kChunk * element_bytes + kTileAlignment; }

// Which of a block's sums another way must compute: those of these rows and of these columns.
struct UnusualSums {
  uint8_t rows[kAmxRows];
  uint8_t cols[kAmxCols + kAmxTileCols];
};

// Output rows [row, row + rows) x columns [col, col + cols) of one matrix of the batch.
struct TileBlock {
  int64_t row, col;
  int rows, cols;   // no more than the shape has
  int sums_stride;  // from row to row of the sums: a multiple of the shape's tile_cols, not below cols
  uint8_t* a_tile;  // of kTileAlignment: the block's rows of a, of as many chunks as there is place for
  uint8_t* b_tile;  // of kTileAlignment: a tile
  // Of AMX's registers alone:
  bool has_rows = false;           // a_tile has these rows already, of all k, and `unusual` theirs
  UnusualSums* unusual = nullptr;  // what the registers cannot multiply is noted there
};

constexpr bool is_int8_product(const Problem& problem) {
  return problem.a.dtype == DType::kInt8 && problem.b.dtype == DType::kInt8;
}

// float32 scales that are one for all of k, which may be applied to the sums.
constexpr bool is_constant_along_k(const Scale& scale) {
  return scale.vec != 0 && scale.type == ScaleType::kFloat32 && scale.strides.col == 0;
}

// float32 scales of blocks along k.
constexpr bool changes_along_k(const Scale& scale) {
  return scale.vec != 0 && scale.type == ScaleType::kFloat32 && scale.strides.col != 0;
}

constexpr bool scales_blocks(const Problem& problem) {
  return changes_along_k(problem.a.scale) || changes_along_k(problem.b.scale);
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

// Whether the elements of a row, or of a column, are of usual sizes: products of such are normal, whatever the partner
// is. As words of bfloat16, which are the upper halves of float32.
constexpr uint32_t kLeastUsualWord = (127 - 56) << 7, kMostUsualWord = (127 + 60) << 7;

constexpr bool are_usual(const Magnitudes& magnitudes) {
  return magnitudes.least >= kLeastUsualWord << 16 && magnitudes.most <= kMostUsualWord << 16;
}
static_assert(are_products_normal({kLeastUsualWord << 16, kMostUsualWord << 16},
                                  {kLeastUsualWord << 16, kMostUsualWord << 16}));

// Whether a scale that may wait does: one of a usual size. Others go with their elements.
constexpr bool waits_for_sums(const Scale& scale, uint32_t bits) {
  constexpr uint32_t kLeast = (127 - 40) << 23, kMost = (127 + 40) << 23;
  return scale.may_wait && (bits & 0x7fffffffu) >= kLeast && (bits & 0x7fffffffu) <= kMost;
}

// The largest blocks that a version takes. tile_cols: what their columns are a multiple of.
struct BlockShape {
  int rows, cols, tile_cols;
  bool is_of_registers = false;  // AMX's
};
constexpr BlockShape kVectorBlocks{kTileRows, kMaxBlockCols, kTileCols};
constexpr BlockShape kAmxBlocks{kAmxRows, kAmxCols, kAmxTileCols, true};

// Whether elements have 8 bits at most, each under its scale but for those that wait.
constexpr bool fits_bfloat16(const Operand& operand) {
  if (operand.scale.vec != 0) return operand.scale.type != ScaleType::kFloat32 || operand.scale.may_wait;
  return operand.dtype == DType::kBFloat16 || is_float8(operand.dtype);
}

// The functions of one version of the vector code, or those by AMX's registers. sums: [rows][sums_stride] of a block;
// they write all of it.
struct TileKernels {
  const char* tiles_name;  // for the kernel log
  const char* row_name;    // where `a` has a single row
  void (*multiply)(const Problem& problem, const TileBlock& block, float* sums);
  void (*multiply_int8)(const Problem& problem, const TileBlock& block, int64_t* sums);  // of the codes
  void (*multiply_float64)(const Problem& problem, const TileBlock& block, double* sums);
  BlockShape shape = kVectorBlocks;
};

extern const TileKernels kBaselineKernels, kAvx2Kernels, kAvx512Kernels, kAvx512Bfloat16Kernels;

#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define TILEON_HAS_AMX
extern const TileKernels kAmxKernels;  // of no float64
#endif

// Elements [begin, begin + count) of a row, each times its scale, in the order of a tile (tile_index): whatever the
// codes and the scales are. The vector code does those that are numbers under scales of a usual size.
void decode_exactly(const Operand& operand, int64_t row, int64_t begin, int count, float* to);

// Where element i of a chunk of codes stands in a tile of float32: the odd ones of a group first, then the even ones.
constexpr int tile_index(int i) { return i / kGroup * kGroup + (i % 2 == 0 ? kGroup / 2 : 0) + i % kGroup / 2; }
static_assert(tile_index(0) == 16 && tile_index(1) == 0 && tile_index(31) == 15 && tile_index(32) == 48);

}  // namespace tileon
