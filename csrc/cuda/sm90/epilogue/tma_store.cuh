// From accumulators to 16-bit rows of the output through TMA, while the next tile is being multiplied.
//
// Every warp works alone: its 16 rows go in chunks of columns through buffers of its own, so that no warp waits for
// another. A chunk is scaled and finished when it is its turn, while the ones before are on their way: storing a large
// tile takes longer than the arithmetic, which hides behind it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/sm90/epilogue/ops.cuh"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// How a chunk of kColumns lies in its buffer, as TMA expects it: where a lane's row of stmatrix goes.
template <int kColumns>
class ChunkRows {
  // Bits 4 to 6 of an address with the bits three places above; for rows of 64 bytes bits 4 and 5. Those lie in the
  // row's part of the place, which the column does not reach. Chunks of other widths are not swizzled: rows of an odd
  // multiple of 16 bytes meet different banks by themselves, and those of an even one at most twice.
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

template <typename Kernel, int kColumns>
__device__ __forceinline__ void write_chunk(const uint32_t (&words)[kColumns / 4], uint32_t buffer) {
  const RowsInBuffer<Kernel, kColumns> rows(buffer, threadIdx.x % 32);
#pragma unroll
  for (int column = 0; column + 16 <= kColumns; column += 16) rows.write_16(column, &words[column / 4]);
  if constexpr (kColumns % 16 == 8) rows.write_8(kColumns - 8, &words[(kColumns - 8) / 4]);
}

// Of the first chunk; read while the last stage is multiplied, where there are registers for it.
template <typename Kernel>
using FirstBias = ChunkBias<Kernel, (Kernel::columns < kStoreColumns ? Kernel::columns : kStoreColumns)>;

// Finishes, rounds and stores one chunk through `buffers`, which are the warp's own. `bias` is for the output's column
// that the warp's part begins with.
template <typename Kernel, int kChunk, typename Results, typename EpilogueOfSum>
__device__ __forceinline__ void store_chunk(const KernelParams& params, uint32_t buffers, const Results& results,
                                            const float* bias, const FirstBias<Kernel>& first_bias,
                                            const EpilogueOfSum& epilogue, const StorePlace& place) {
  constexpr int chunks_per_row = store_chunks(Kernel::columns);
  constexpr int chunks = Kernel::row_blocks * chunks_per_row;
  constexpr int block = kChunk / chunks_per_row, begin = kChunk % chunks_per_row * kStoreColumns;
  constexpr bool is_tail = begin + kStoreColumns > Kernel::columns;
  constexpr int columns = is_tail ? store_tail(Kernel::columns) : kStoreColumns;
  constexpr int store_buffers = sm90::store_buffers(Kernel::config);
  const uint32_t buffer = buffers + kChunk % store_buffers * kStoreBufferBytes;
  constexpr int down = Kernel::swapped ? begin : block * 64;  // in the output, from the warp's place on
  constexpr int along = Kernel::swapped ? block * 64 : begin;

  uint32_t words[columns / 4];
  ChunkBias<Kernel, columns> chunk_bias;
  if constexpr (EpilogueOfSum::biased) {
    if constexpr (kChunk == 0 && Kernel::reads_bias_early) {
      chunk_bias = first_bias;
    } else {
      chunk_bias.read(bias + along);
    }
  }
  const auto fragments = results.template columns<block, begin, columns>();
  round_chunk<Kernel, columns>(&fragments[0], chunk_bias, epilogue, words);
  // The last store through this buffer must have read it. The next chunk's wait, a branch like this one, also keeps
  // ptxas from finishing that chunk before this one is stored.
  if (ptx::elect_one()) {
    if (kChunk == 0 && chunks % store_buffers != 0) {
      ptx::tma_wait_read<0>();  // that was the last tile's last chunk
    } else {
      ptx::tma_wait_read<store_buffers - 1>();
    }
  }
  __syncwarp();
  write_chunk<Kernel, columns>(words, buffer);
  ptx::fence_proxy_async();
  __syncwarp();
  const CUtensorMap& map = is_tail ? params.map_out_tail : params.map_out;
  ptx::tma_store_3d_by_warp(map, buffer, place.column + along, place.row + down, place.batch);
}

// Finishes and stores a warp's part of a tile. The three ways to finish are three copies of the code: decided in each
// chunk, they would keep the compiler from moving one chunk's arithmetic under the other's store.
template <typename Kernel, typename Results>
__device__ __forceinline__ void store_by_tma(const KernelParams& params, unsigned char* buffers, const Results& results,
                                             const float* bias, const FirstBias<Kernel>& first_bias,
                                             const StorePlace& place) {
  static_assert(Kernel::columns % 8 == 0);
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(buffers));
  const auto store = [&]<int... kChunk>(const auto& epilogue, std::integer_sequence<int, kChunk...>) {
    (store_chunk<Kernel, kChunk>(params, shared, results, bias, first_bias, epilogue, place), ...);
  };
  const std::make_integer_sequence<int, Kernel::row_blocks * store_chunks(Kernel::columns)> chunks;
  // ptxas lays out the last case first, right behind the main loop, where instructions are prefetched. The longest one
  // stands there: elsewhere it waits for its instructions once other kernels have run in between.
  switch (params.epilogue_op) {
    case EpilogueOp::kNothing:
      return store(Identity{}, chunks);
    case EpilogueOp::kBiasAndRelu:
      return store(BiasAndRelu{}, chunks);
    case EpilogueOp::kActivation:
      __builtin_unreachable();  // that is for activated_store.cuh
    case EpilogueOp::kBiasAndLeakyRelu:
      return store(BiasAndLeakyRelu{params.slope}, chunks);
  }
}

// Shared memory must outlive the stores that read it.
__device__ __forceinline__ void wait_for_tma_stores() {
  if (ptx::elect_one()) ptx::tma_wait_read<0>();
}

}  // namespace tileon::sm90
