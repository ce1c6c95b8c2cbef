// From accumulators to 16-bit rows of the output through TMA, while the next tile is being multiplied.
//
// Every warp works alone: its 16 rows go in chunks of columns through buffers of its own, so that no warp waits for
// another.
#pragma once

#include <cstdint>

#include "../../output/convert.cuh"
#include "../../ptx/fence.cuh"
#include "../../ptx/stmatrix.cuh"
#include "../../ptx/tma.cuh"
#include "../config.h"
#include "../kernel_params.h"
#include "store_place.h"

namespace tileon::sm90 {

__device__ __forceinline__ bool has_epilogue(const Epilogue& epilogue) {
  return epilogue.bias != nullptr || epilogue.activation != Activation::kNone;
}

// What happens to a sum before it is rounded; the formulas of epilogue.h.
struct Unchanged {
  static constexpr bool biased = false;
  __device__ __forceinline__ float operator()(float x) const { return x; }
};
// For slopes above 0 and up to 1, of which 1 is the bias alone: the larger one of x and slope x is then leaky_relu's.
struct BiasAndLeakyRelu {
  static constexpr bool biased = true;
  float slope;
  __device__ __forceinline__ float operator()(float x) const { return fmaxf(x, slope * x); }
};
struct BiasAndRelu {
  static constexpr bool biased = true;
  __device__ __forceinline__ float operator()(float x) const { return activate(x, Activation::kRelu, 0.0f); }
};

// A warp's part of a tile, finished and rounded: two columns a word, in the order in which stmatrix takes them.
template <typename Kernel>
struct RoundedSums {
  uint32_t words[Kernel::row_blocks][Kernel::columns / 4];

  // `bias` is for the warp's first column of the output; it is read where the epilogue is biased.
  template <typename Finish>
  __device__ __forceinline__ void round(const typename Kernel::Sums& sums, const float* bias, const Finish& finish) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int block = 0; block < Kernel::row_blocks; ++block) {
      float row_bias[2] = {0.0f, 0.0f};  // swapped, wgmma's rows are columns of the output
      if constexpr (Finish::biased && Kernel::swapped) {
        row_bias[0] = bias[block * 64 + lane / 4];
        row_bias[1] = bias[block * 64 + lane / 4 + 8];
      }
#pragma unroll
      for (int j = 0; j < Kernel::columns / 8; ++j) {
        float2 pair = {0.0f, 0.0f};  // a lane has the same two of every eight columns, in two rows
        if constexpr (Finish::biased && !Kernel::swapped)
          pair = *reinterpret_cast<const float2*>(bias + j * 8 + lane % 4 * 2);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float first = sums[block][j * 4 + half * 2], second = sums[block][j * 4 + half * 2 + 1];
          if constexpr (Finish::biased) {
            first += Kernel::swapped ? row_bias[half] : pair.x;
            second += Kernel::swapped ? row_bias[half] : pair.y;
          }
          words[block][j * 2 + half] = round_pair<typename Kernel::Element>(finish(first), finish(second));
        }
      }
    }
  }
};

// Writes kColumns of a warp's rows, from `begin` on, as TMA expects them.
template <int kColumns, int kWords>
__device__ __forceinline__ void write_chunk(const uint32_t (&words)[kWords], int begin, uint32_t buffer) {
  // Bits 4 to 6 of an address with the bits three places above; for rows of 64 bytes bits 4 and 5. Those lie in the
  // row's part of the place, which the column does not reach. Chunks of other widths are not swizzled: rows of an odd
  // multiple of 16 bytes meet different banks by themselves, and those of an even one at most twice.
  constexpr uint32_t swizzle = kColumns == 64 ? 0x70 : kColumns == 32 ? 0x30 : 0;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t place = lane % 16 * (kColumns * kElementBytes) + lane / 16 * 16;  // of this lane's row of stmatrix
  const uint32_t swizzled = place >> 3 & swizzle;
#pragma unroll
  for (int x = 0; x + 16 <= kColumns; x += 16) {
    const uint32_t* four = &words[(begin + x) / 4];
    ptx::stmatrix_x4(buffer + ((place + x * kElementBytes) ^ swizzled), four[0], four[1], four[2], four[3]);
  }
  if constexpr (kColumns % 16 == 8) {  // the last eight columns
    constexpr int x = kColumns - 8;
    ptx::stmatrix_x2(buffer + place + x * kElementBytes, words[(begin + x) / 4], words[(begin + x) / 4 + 1]);
  }
}

// The same for swapped operands: kColumns of wgmma's are rows of the output, 16 columns wide.
template <int kColumns, int kWords>
__device__ __forceinline__ void write_chunk_transposed(const uint32_t (&words)[kWords], int begin, uint32_t buffer) {
  constexpr int row_bytes = kStoreRows * kElementBytes;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t place = (lane / 16 * 8 + lane % 8) * row_bytes + lane / 8 % 2 * 16;  // of this lane's row of stmatrix
#pragma unroll
  for (int x = 0; x + 16 <= kColumns; x += 16) {
    const uint32_t* four = &words[(begin + x) / 4];
    ptx::stmatrix_x4_transposed(buffer + place + x * row_bytes, four[0], four[1], four[2], four[3]);
  }
  if constexpr (kColumns % 16 == 8) {
    constexpr int x = kColumns - 8;
    const uint32_t last = lane % 8 * row_bytes + lane / 8 % 2 * 16;
    ptx::stmatrix_x2_transposed(buffer + last + x * row_bytes, words[(begin + x) / 4], words[(begin + x) / 4 + 1]);
  }
}

// Stores a warp's part of a tile, chunk by chunk, through `buffers`, which are the warp's own.
template <typename Kernel>
__device__ __forceinline__ void store_by_tma(const KernelParams& params, unsigned char* buffers,
                                             const RoundedSums<Kernel>& sums, const StorePlace& place) {
  static_assert(Kernel::columns % 8 == 0);
  constexpr int chunks_per_row = store_chunks(Kernel::columns);
  constexpr int chunks = Kernel::row_blocks * chunks_per_row;
  constexpr int tail = store_tail(Kernel::columns);
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(buffers));
  const bool elected = threadIdx.x % 32 == 0;
#pragma unroll
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int block = chunk / chunks_per_row, begin = chunk % chunks_per_row * kStoreColumns;
    const bool is_tail = begin + kStoreColumns > Kernel::columns;
    const uint32_t buffer = shared + chunk % kStoreBuffers * kStoreBufferBytes;
    if (elected) {  // what was stored through this buffer last must have been read
      if (chunk == 0 && chunks % kStoreBuffers != 0) {
        ptx::tma_wait_read<0>();  // that was the last tile's last chunk
      } else {
        ptx::tma_wait_read<kStoreBuffers - 1>();
      }
    }
    __syncwarp();
    if constexpr (Kernel::swapped) {
      is_tail ? write_chunk_transposed<tail>(sums.words[block], begin, buffer)
              : write_chunk_transposed<kStoreColumns>(sums.words[block], begin, buffer);
    } else {
      is_tail ? write_chunk<tail>(sums.words[block], begin, buffer)
              : write_chunk<kStoreColumns>(sums.words[block], begin, buffer);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    if (elected) {
      const CUtensorMap& map = is_tail ? params.map_out_tail : params.map_out;
      const int row = place.row + (Kernel::swapped ? begin : block * 64);
      const int column = place.column + (Kernel::swapped ? block * 64 : begin);
      ptx::tma_store_3d(map, buffer, column, row, place.batch);
      ptx::tma_commit();
    }
  }
}

// Shared memory must outlive the stores that read it.
__device__ __forceinline__ void wait_for_tma_stores() {
  if (threadIdx.x % 32 == 0) ptx::tma_wait_read<0>();
}

}  // namespace tileon::sm90
