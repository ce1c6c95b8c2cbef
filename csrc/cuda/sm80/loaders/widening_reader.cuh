// fp8 operands on their way from global memory to tiles of float16, in chunks of 8 codes along either dimension.
#pragma once

#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/operand_access.h"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// Fetches k-blocks in order, and widens them in the same order. Codes come by cp.async into a ring of `kBlocks`
// k-blocks. A thread reads only chunks that it has copied itself, so its own wait for the copies suffices, and no
// barrier is needed. Everything outside the operand becomes zero.
template <typename Tile, int kTileMn, int kBlockK, int kThreads, int kBlocks>
class WideningReader {
  static constexpr int kChunks = Tile::rows * Tile::chunks_per_row;
  static constexpr int kChunksPerThread = kChunks / kThreads;
  static constexpr int kRowStep = kThreads / Tile::chunks_per_row;  // rows between two chunks of one thread
  static constexpr int kBlockBytes = kChunks * kCodeChunkBytes;
  static_assert(kChunks % kThreads == 0 && kThreads % Tile::chunks_per_row == 0);
  static_assert(Tile::elements_per_chunk == kCodeChunkBytes, "a chunk of codes fills one of the tile");

 public:
  static constexpr int ring_bytes = kBlocks * kBlockBytes;

  // `ring` is shared memory of this reader alone.
  __device__ WideningReader(const Matrix& operand, DType dtype, int64_t batch, int64_t k_begin, int64_t mn_begin,
                            int64_t mn_size, uint32_t ring)
      : fetched_(ring + threadIdx.x * kCodeChunkBytes),
        widened_(fetched_),
        ring_end_(ring + ring_bytes),
        row_(threadIdx.x / Tile::chunks_per_row),
        chunk_(threadIdx.x % Tile::chunks_per_row),
        e4m3_(dtype == DType::kFloat8E4M3) {
    constexpr bool along_k = Tile::major == Major::kK;
    const int in_row = chunk_ * kCodeChunkBytes;
    const int64_t stride_row = along_k ? operand.stride_mn : operand.stride_k;
    source_ = static_cast<const uint8_t*>(operand.data) + batch * operand.stride_batch + k_begin * operand.stride_k +
              mn_begin * operand.stride_mn + row_ * stride_row + in_row;
    row_step_ = kRowStep * stride_row;
    block_step_ = along_k ? kBlockK : kBlockK * operand.stride_k;
    mn_count_ = static_cast<int>(mn_size - mn_begin < kTileMn ? mn_size - mn_begin : kTileMn);
  }

  // Starts the copies of the next k-block, of which `k_count` lie inside the operand: 0 behind its end.
  __device__ __forceinline__ void fetch(int k_count) {
    const int rows = Tile::major == Major::kK ? mn_count_ : k_count;
    const int codes = (Tile::major == Major::kK ? k_count : mn_count_) - chunk_ * kCodeChunkBytes;
    const int bytes = codes <= 0 ? 0 : codes < kCodeChunkBytes ? codes : kCodeChunkBytes;
#pragma unroll
    for (int i = 0; i < kChunksPerThread; ++i)
      ptx::cp_async_element<kCodeChunkBytes>(fetched_ + i * kThreads * kCodeChunkBytes, source_ + i * row_step_,
                                             row_ + i * kRowStep < rows ? bytes : 0);
    source_ += block_step_;
    fetched_ = after(fetched_);
  }

  // The codes of the next k-block, whose copies have arrived: read all at once, before any of them is widened.
  using Codes = uint32_t[kChunksPerThread][2];
  __device__ __forceinline__ void read(Codes& codes) {
#pragma unroll
    for (int i = 0; i < kChunksPerThread; ++i)
      ptx::load_shared_words(codes[i], widened_ + i * kThreads * kCodeChunkBytes);
    widened_ = after(widened_);
  }

  // Writes their numbers to the tile at `shared`.
  __device__ __forceinline__ void widen(const Codes& codes, uint32_t shared) const {
    if (e4m3_) {
      widen_as(codes, shared, true);
    } else {
      widen_as(codes, shared, false);
    }
  }

 private:
  __device__ __forceinline__ void widen_as(const Codes& codes, uint32_t shared, bool e4m3) const {
#pragma unroll
    for (int i = 0; i < kChunksPerThread; ++i) {
      uint32_t first[2], second[2];
      float16_pairs(codes[i][0], e4m3, first);
      float16_pairs(codes[i][1], e4m3, second);
      ptx::store_shared_16(shared + Tile::offset(row_ + i * kRowStep, chunk_),
                           make_uint4(first[0], first[1], second[0], second[1]));
    }
  }

  __device__ __forceinline__ uint32_t after(uint32_t place) const {
    return place + kBlockBytes >= ring_end_ ? place + kBlockBytes - ring_bytes : place + kBlockBytes;
  }

  uint32_t fetched_, widened_;  // this thread's first chunk of the next k-block, in the ring
  uint32_t ring_end_;
  int row_;       // this thread's first chunk, in the tile
  int chunk_;     // the same in all of this thread's rows
  int mn_count_;  // rows (columns, of b) of the tile that lie inside the operand
  bool e4m3_;     // else e5m2
  const uint8_t* source_;
  int64_t row_step_;
  int64_t block_step_;
};

}  // namespace tileon::sm80
