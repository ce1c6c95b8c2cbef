// A chunk of 16-bit results in a warp's buffer: how it lies there, and its way to rows that TMA cannot write, because
// they do not begin at multiples of 16 bytes: an output of 50257 columns has such rows.
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

__device__ __forceinline__ bool is_odd(const uint16_t* at) { return reinterpret_cast<uintptr_t>(at) % 4 != 0; }

// Two neighbouring values; at once, where both are there and lie at a multiple of four bytes.
__device__ __forceinline__ void store_two(uint16_t* at, uint32_t two, bool both) {
  if (both && !is_odd(at)) {
    *reinterpret_cast<uint32_t*>(at) = two;
  } else {
    at[0] = static_cast<uint16_t>(two);
    if (both) at[1] = static_cast<uint16_t>(two >> 16);
  }
}

// The chunk goes to (place.row, place.column) of `data`, which is laid out as the output. A lane takes two columns of a
// row; what lies beyond the output's end is left out.
template <typename Kernel, int kColumns>
__device__ __forceinline__ void copy_chunk(const Output& out, void* data, int64_t m, int64_t n, uint32_t buffer,
                                           const StorePlace& place) {
  constexpr int rows = Kernel::swapped ? kColumns : kStoreRows;
  constexpr int words_of_row = (Kernel::swapped ? kStoreRows : kColumns) / 2;
  constexpr int rounds = rows * words_of_row / 32;
  constexpr int at_once = rounds % 4 == 0 ? 4 : rounds % 2 == 0 ? 2 : 1;  // loads, before their stores
  static_assert(rows * words_of_row % 32 == 0);
  const int lane = threadIdx.x % 32;
  auto* first = static_cast<uint16_t*>(data) + place.batch * out.stride_batch + place.column;
#pragma unroll 1
  for (int round = 0; round < rounds; round += at_once) {
    uint32_t words[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int word = lane + 32 * (round + i);
      words[i] = ptx::load_shared_4(
          buffer + RowsInBuffer<Kernel, kColumns>::place_of(word / words_of_row, word % words_of_row * 2));
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int word = lane + 32 * (round + i);
      const int row = place.row + word / words_of_row, column = word % words_of_row * 2;
      if (row < m && place.column + column < n)
        store_two(first + row * out.stride_m + column, words[i], place.column + column + 1 < n);
    }
  }
}

// ---- a whole chunk, all of it inside the output: a warp that works alone waits for each instruction of an address and
// of a branch, so there are few of them ----

// As copy_chunk. kOdd: rows may begin at odd elements. There a word of memory has the last column of one pair and the
// first of the next, and the row's two ends are stored by themselves: as halves of pairs, each of L2's sectors would be
// written twice.
template <typename Kernel, int kColumns, bool kOdd>
__device__ __forceinline__ void copy_rows(const Output& out, uint16_t* first, uint32_t buffer) {
  using Rows = RowsInBuffer<Kernel, kColumns>;
  constexpr int rows = Kernel::swapped ? kColumns : kStoreRows;
  constexpr int words_of_row = (Kernel::swapped ? kStoreRows : kColumns) / 2;
  constexpr int rows_at_once = 32 / words_of_row, rounds = rows / rows_at_once;
  constexpr int unrolled = rounds % 4 == 0 && sums_of_thread(Kernel::config) < kSumsAlone ? 4 : 2;  // loads at once
  static_assert(rows % rows_at_once == 0 && rounds % unrolled == 0);
  const int lane = ptx::opaque(threadIdx.x % 32), lane_row = lane / words_of_row, word = lane % words_of_row;
  const bool is_used = lane_row < rows_at_once;
  const bool is_first = word == 0, is_end = is_used && (is_first || word == words_of_row - 1);
  const int64_t step = rows_at_once * out.stride_m;
  uint16_t* row = first + (is_used ? lane_row : 0) * out.stride_m;
#pragma unroll 1
  for (int round = 0; round < rounds; round += unrolled) {
    uint32_t words[unrolled];
#pragma unroll
    for (int i = 0; i < unrolled; ++i)
      words[i] =
          ptx::load_shared_4(buffer + Rows::place_of((round + i) * rows_at_once + (is_used ? lane_row : 0), word * 2));
#pragma unroll
    for (int i = 0; i < unrolled; ++i, row += step) {
      if constexpr (kOdd) {
        const bool odd = is_odd(row);
        const uint32_t shifted = ptx::prmt(__shfl_up_sync(~0u, words[i], 1), words[i], 0x5432);
        if (is_used && !(odd && is_first))
          *reinterpret_cast<uint32_t*>(row + word * 2 - odd) = odd ? shifted : words[i];
        if (is_end && odd) row[is_first ? 0 : words_of_row * 2 - 1] = is_first ? words[i] : words[i] >> 16;
      } else {
        if (is_used) *reinterpret_cast<uint32_t*>(row + word * 2) = words[i];
      }
    }
  }
}

// As copy_chunk, which copies the chunks at the output's end.
template <typename Kernel, int kColumns>
__device__ __forceinline__ void copy_most_chunks(const Output& out, void* data, int64_t m, int64_t n, uint32_t buffer,
                                                 const StorePlace& place) {
  constexpr int rows = Kernel::swapped ? kColumns : kStoreRows, columns = Kernel::swapped ? kStoreRows : kColumns;
  if (place.row + rows > m || place.column + columns > n)
    return copy_chunk<Kernel, kColumns>(out, data, m, n, buffer, place);
  auto* first = static_cast<uint16_t*>(data) + place.batch * out.stride_batch + place.row * out.stride_m + place.column;
  if (is_odd(first) || out.stride_m % 2 != 0) {
    copy_rows<Kernel, kColumns, true>(out, first, buffer);
  } else {
    copy_rows<Kernel, kColumns, false>(out, first, buffer);
  }
}

}  // namespace tileon::sm90
