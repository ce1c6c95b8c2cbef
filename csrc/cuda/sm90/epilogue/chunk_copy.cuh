// A chunk of 16-bit results in a warp's buffer: how it lies there, and its way to rows that TMA cannot write, because they
// do not begin at multiples of 16 bytes: an output of 50257 columns has such rows.
//
// Which words of a row are whole in memory hangs on where the row begins. Where that is at an odd element, a word has the
// last column of one pair of the chunk and the first of the next: columns 2 w - 1 and 2 w. No word is written by halves,
// then, and no sector twice within a few instructions, which L2 takes far longer for. Such a row's last column waits for
// the next chunk.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/heuristics/config.h"

namespace tileon::sm90 {

// How a chunk of kColumns lies in its buffer, as TMA expects it: where a lane's row of stmatrix goes.
template <int kColumns>
class ChunkRows {
  // Bits 4 to 6 of an address with the bits three places above; for rows of 64 bytes bits 4 and 5. The upper bits lie
  // in the row's part of the place, which the column does not reach. Chunks of other widths are not swizzled: rows of
  // an odd multiple of 16 bytes meet different banks by themselves, and those of an even one at most twice.
  static constexpr uint32_t kSwizzle = kColumns == 64 ? 0x70 : kColumns == 32 ? 0x30 : 0;

 public:
  __device__ __forceinline__ ChunkRows(uint32_t buffer, uint32_t lane) : buffer_(buffer) {
    place_ = lane % 16 * (kColumns * kElementBytes) + lane / 16 * 16;
    swizzled_ = place_ >> 3 & kSwizzle;
  }

  // Sixteen columns from `column` on, and eight.
  __device__ __forceinline__ void write_16(int column, const uint32_t* words) const {
    ptx::stmatrix_x4(buffer_ + ((place_ + column * kElementBytes) ^ swizzled_), words[0], words[1], words[2], words[3]);
  }
  __device__ __forceinline__ void write_8(int column, const uint32_t* words) const {
    ptx::stmatrix_x2(buffer_ + ((place_ + column * kElementBytes) ^ swizzled_), words[0], words[1]);
  }

  // Where a column of a row lies, in bytes from the buffer's begin.
  static __device__ __forceinline__ uint32_t place_of(uint32_t row, uint32_t column) {
    const uint32_t place = (row * kColumns + column) * kElementBytes;
    return place ^ (place >> 3 & kSwizzle);
  }

 private:
  uint32_t buffer_, place_, swizzled_;
};

// ChunkRows for swapped operands: wgmma's columns are rows of the output, 16 columns wide.
class TransposedChunkRows {
  static constexpr int kRowBytes = kStoreRows * kElementBytes;

 public:
  __device__ __forceinline__ TransposedChunkRows(uint32_t buffer, uint32_t lane) : buffer_(buffer) {
    place_ = (lane / 16 * 8 + lane % 8) * kRowBytes + lane / 8 % 2 * 16;
    last_ = lane % 8 * kRowBytes + lane / 8 % 2 * 16;
  }

  __device__ __forceinline__ void write_16(int column, const uint32_t* words) const {
    ptx::stmatrix_x4_transposed(buffer_ + place_ + column * kRowBytes, words[0], words[1], words[2], words[3]);
  }
  __device__ __forceinline__ void write_8(int column, const uint32_t* words) const {
    ptx::stmatrix_x2_transposed(buffer_ + last_ + column * kRowBytes, words[0], words[1]);
  }

  static __device__ __forceinline__ uint32_t place_of(uint32_t row, uint32_t column) {
    return row * kRowBytes + column * kElementBytes;
  }

 private:
  uint32_t buffer_, place_, last_;
};

template <typename Kernel, int kColumns>
using RowsInBuffer = std::conditional_t<Kernel::swapped, TransposedChunkRows, ChunkRows<kColumns>>;

// A warp's chunk among those that its rows have in a tile.
struct ChunkPlace {
  bool is_first, is_last;
};

__device__ __forceinline__ bool is_odd(const uint16_t* at) { return reinterpret_cast<uintptr_t>(at) % 4 != 0; }

// Stores what a word has of columns `column` and the one behind it, the first `columns` of them from `at` on.
__device__ __forceinline__ void store_word(uint16_t* at, uint32_t word, int columns) {
  if (columns >= 2) {
    *reinterpret_cast<uint32_t*>(at) = word;
  } else if (columns == 1) {
    *at = static_cast<uint16_t>(word);
  }
}

// The chunk goes to (place.row, place.column) of `data`, which is laid out as the output; what lies beyond the output's
// end is left out. `waiting`: of lane i the last column of row i of the chunk before, and then of this one.
template <typename Kernel, int kColumns>
__device__ __forceinline__ void copy_chunk(const Output& out, void* data, int64_t m, int64_t n, uint32_t buffer,
                                           const StorePlace& place, const ChunkPlace& chunk, uint32_t& waiting) {
  using Rows = RowsInBuffer<Kernel, kColumns>;
  constexpr int words_of_row = kColumns / 2, rounds = kStoreRows * words_of_row / 32;
  constexpr bool crowded = is_crowded(Kernel::stored_sums, Kernel::config);
  constexpr int at_once = crowded ? 1 : rounds % 4 == 0 ? 4 : rounds % 2 == 0 ? 2 : 1;  // loads, before their stores
  static_assert(kStoreRows * words_of_row % 32 == 0);
  const int lane = ptx::opaque(threadIdx.x % 32), rows = static_cast<int>(min(m - place.row, int64_t{kStoreRows}));
  const int columns = static_cast<int>(min(n - place.column, int64_t{kColumns}));  // may be none
  auto* first = static_cast<uint16_t*>(data) + place.batch * out.stride_batch + place.row * out.stride_m + place.column;
#pragma unroll 1
  for (int round = 0; round < rounds; round += at_once) {
    uint32_t words[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int index = lane + 32 * (round + i), row = index / words_of_row, word = index % words_of_row;
      words[i] = ptx::load_shared_4(buffer + Rows::place_of(row, word * 2));
      uint32_t before = __shfl_sync(~0u, waiting, row) << 16;
      if (word > 0) before = ptx::load_shared_4(buffer + Rows::place_of(row, word * 2 - 2));
      if (is_odd(first + row * out.stride_m)) words[i] = ptx::prmt(before, words[i], 0x5432);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int index = lane + 32 * (round + i), row = index / words_of_row;
      uint16_t* to = first + row * out.stride_m;
      const int column = index % words_of_row * 2 - (is_odd(to) ? 1 : 0);
      if (row < rows && (column >= 0 || !chunk.is_first)) store_word(to + column, words[i], columns - column);
    }
  }
  const int row = lane % kStoreRows;
  waiting = ptx::load_shared_2(buffer + Rows::place_of(row, kColumns - 1));
  uint16_t* to = first + row * out.stride_m;
  if (lane >= kStoreRows || row >= rows || !is_odd(to)) return;
  if (chunk.is_first && columns > 0) *to = static_cast<uint16_t>(ptx::load_shared_2(buffer + Rows::place_of(row, 0)));
  if (chunk.is_last && columns == kColumns) to[kColumns - 1] = static_cast<uint16_t>(waiting);
}

// As it, of swapped operands, whose chunks are 16 columns wide. Where a row begins at an odd element, lanes take a
// column each, else two.
template <typename Kernel, int kColumns>
__device__ __forceinline__ void copy_swapped_chunk(const Output& out, void* data, int64_t m, int64_t n, uint32_t buffer,
                                                   const StorePlace& place) {
  auto* first = static_cast<uint16_t*>(data) + place.batch * out.stride_batch;
  const bool by_words = out.stride_m % 2 == 0 && !is_odd(first + place.column);
  const int lanes_of_row = by_words ? kStoreRows / 2 : kStoreRows;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < kColumns * lanes_of_row; i += 32) {
    const int row = by_words ? i / (kStoreRows / 2) : i / kStoreRows;
    const int column = by_words ? i % (kStoreRows / 2) * 2 : i % kStoreRows;
    if (place.row + row >= m || place.column + column >= n) continue;
    const uint32_t at = buffer + RowsInBuffer<Kernel, kColumns>::place_of(row, column);
    uint16_t* to = first + (place.row + row) * out.stride_m + place.column + column;
    if (by_words && place.column + column + 1 < n) {
      *reinterpret_cast<uint32_t*>(to) = ptx::load_shared_4(at);
    } else {
      *to = static_cast<uint16_t>(ptx::load_shared_2(at));
    }
  }
}

}  // namespace tileon::sm90
