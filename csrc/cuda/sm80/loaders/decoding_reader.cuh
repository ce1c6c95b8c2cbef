// One operand's k-blocks on their way from any encoding in global memory to TF32 in shared memory. TF32 holds every
// number of 16 bits, every code, and every code of e4m3 or e2m1 times its scale.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/common/numbers.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// Fetches k-blocks in order, four elements at a time: by one load where `vectors` says that they lie together, and else
// each through both strides. A k-block waits in registers from `fetch` to the next `land`, so that its loads overlap
// one k-block's products. float32 scales are left to the sums.
template <int kBits, typename Tile, int kTileMn, int kBlockK, int kThreads>
class DecodingReader {
  static constexpr int kPerChunk = 4;
  static constexpr int kChunksPerThread = Tile::rows * Tile::chunks_per_row / kThreads;
  static_assert(Tile::elements_per_chunk == kPerChunk && Tile::rows * Tile::chunks_per_row % kThreads == 0);

 public:
  // `vec` elements along k share a scale: 16, 32 or 128.
  __device__ DecodingReader(const ScaledKernelOperand& operand, ScaleType scale_type, int vec, bool vectors,
                            int64_t mn_begin, int64_t mn_size)
      : operand_(operand),
        scale_type_(scale_type),
        vec_bits_(vec == 16   ? 4
                  : vec == 32 ? 5
                              : 7),
        vectors_(vectors),
        mn_begin_(mn_begin),
        row_last_(static_cast<int>(min(mn_size - mn_begin, static_cast<int64_t>(kTileMn))) - 1),
        lanes_along_k_(operand.stride_k <= operand.stride_row) {}

  // Rows past the operand's end repeat the last one; they are never stored.
  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
#pragma unroll
    for (int i = 0; i < kChunksPerThread; ++i) {
      const Place place = place_of(i);
      const int64_t row = mn_begin_ + min(place.row, row_last_), k = k_begin_ + place.chunk * kPerChunk;
      const int inside = k_count - place.chunk * kPerChunk;
      waiting_[i] = load_four<kBits>(operand_, row, k, inside, vectors_);
      scales_[i] =
          inside <= 0 ? 0.0f : byte_scale(operand_, scale_type_, operand_.scale_strides.offset(row, k >> vec_bits_));
    }
    landing_ = shared;
    waiting_count_ = k_count;
    k_begin_ += kBlockK;
  }

  __device__ __forceinline__ void land() {
    if (waiting_count_ == 0) return;
#pragma unroll
    for (int i = 0; i < kChunksPerThread; ++i) {
      const Place place = place_of(i);
      const int inside = waiting_count_ - place.chunk * kPerChunk;
      uint32_t values[kPerChunk];
#pragma unroll
      for (int j = 0; j < kPerChunk; ++j)
        values[j] = j < inside ? bits_of(number_of<kBits>(waiting_[i].code(j), operand_.dtype) * scales_[i]) : 0;
      ptx::store_shared_16(landing_ + Tile::offset(place.row, place.chunk),
                           {values[0], values[1], values[2], values[3]});
    }
    waiting_count_ = 0;
  }

 private:
  using Codes = FourCodes<kBits>;

  struct Place {
    int row;
    int chunk;
  };

  // Neighbouring threads read neighbouring addresses, whichever dimension those lie along.
  __device__ __forceinline__ Place place_of(int i) const {
    const int index = static_cast<int>(threadIdx.x) + i * kThreads;
    return lanes_along_k_ ? Place{index / Tile::chunks_per_row, index % Tile::chunks_per_row}
                          : Place{index % Tile::rows, index / Tile::rows};
  }

  const ScaledKernelOperand& operand_;
  ScaleType scale_type_;
  int vec_bits_;
  bool vectors_;
  int64_t mn_begin_;
  int row_last_;  // the last of the tile's rows inside the operand
  bool lanes_along_k_;
  int64_t k_begin_ = 0;    // of the next k-block
  int waiting_count_ = 0;  // how much of k the k-block in registers has; 0: none waits
  uint32_t landing_ = 0;
  Codes waiting_[kChunksPerThread];
  float scales_[kChunksPerThread];
};

}  // namespace tileon::sm80
