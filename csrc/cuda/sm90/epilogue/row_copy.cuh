// From a chunk in a warp's buffer to rows of the output that TMA cannot write, because they do not begin at multiples
// of 16 bytes: an output of 50257 columns has such rows.
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/epilogue/store_place.h"
#include "cuda/sm90/epilogue/tma_store.cuh"

namespace tileon::sm90 {

// Two neighbouring values; at once, where both are there and lie at a multiple of four bytes.
__device__ __forceinline__ void store_two(uint16_t* at, uint32_t two, bool both) {
  if (both && reinterpret_cast<uintptr_t>(at) % 4 == 0) {
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

}  // namespace tileon::sm90
