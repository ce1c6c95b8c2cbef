// Where the 16-byte chunks of a tile lie in shared memory, so that reads down a column of chunks meet every bank once.
#pragma once

#include "core/host_device.h"

namespace tileon {

constexpr int kChunkBytes = 16;
constexpr int kChunksPerLine = 8;  // a line is 128 bytes: all 32 banks once

enum class Swizzle {
  kChunkColumns,  // ldmatrix: 8 consecutive rows x 1 chunk
  kWordColumns,   // 32-bit loads: 4 consecutive rows x 2 chunks (8 words)
};

// The place, in chunks from the row's start, of chunk `chunk` of row `row`. An involution of the row's chunks, made of
// exclusive-or alone, so that offsets of different rows and chunks combine by exclusive-or too.
template <Swizzle kSwizzle, int kChunksPerRow>
TILEON_HOST_DEVICE constexpr int swizzled_chunk(int row, int chunk) {
  static_assert((kChunksPerRow & (kChunksPerRow - 1)) == 0, "exclusive-or stays in the row only for powers of two");
  if constexpr (kSwizzle == Swizzle::kWordColumns) {
    static_assert(kChunksPerRow >= kChunksPerLine);
    return chunk ^ ((row & 3) << 1);
  } else {
    constexpr int rows_per_line = kChunksPerRow >= kChunksPerLine ? 1 : kChunksPerLine / kChunksPerRow;
    constexpr int mask = (kChunksPerRow >= kChunksPerLine ? kChunksPerLine : kChunksPerRow) - 1;
    return chunk ^ ((row / rows_per_line) & mask);
  }
}

namespace swizzle_proof {

// The bank group (of 16 bytes) where a chunk starts.
template <Swizzle kSwizzle, int kChunksPerRow>
constexpr int bank_group(int row, int chunk) {
  return (row * kChunksPerRow + swizzled_chunk<kSwizzle, kChunksPerRow>(row, chunk)) % kChunksPerLine;
}

// Every aligned read (`rows` rows x `width` chunks) meets eight different bank groups.
template <Swizzle kSwizzle, int kChunksPerRow>
constexpr bool free_of_conflicts() {
  constexpr int rows = kSwizzle == Swizzle::kChunkColumns ? 8 : 4;
  constexpr int width = kChunksPerLine / rows;
  for (int first_row = 0; first_row < 16; first_row += rows) {
    for (int first_chunk = 0; first_chunk < kChunksPerRow; first_chunk += width) {
      int met = 0;
      for (int i = 0; i < kChunksPerLine; ++i)
        met |= 1 << bank_group<kSwizzle, kChunksPerRow>(first_row + i / width, first_chunk + i % width);
      if (met != 0xff) return false;
    }
  }
  return true;
}

static_assert(free_of_conflicts<Swizzle::kChunkColumns, 2>() && free_of_conflicts<Swizzle::kChunkColumns, 4>() &&
              free_of_conflicts<Swizzle::kChunkColumns, 8>() && free_of_conflicts<Swizzle::kChunkColumns, 16>() &&
              free_of_conflicts<Swizzle::kChunkColumns, 32>());
static_assert(free_of_conflicts<Swizzle::kWordColumns, 8>() && free_of_conflicts<Swizzle::kWordColumns, 16>() &&
              free_of_conflicts<Swizzle::kWordColumns, 32>());

}  // namespace swizzle_proof
}  // namespace tileon
