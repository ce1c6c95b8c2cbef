// One operand's codes and scales on their way from global memory to registers.
#pragma once

#include <cstdint>

#include "../../../problem.h"
#include "operand_access.h"

namespace tileon::sm80 {

// A k-block is two chunks of every row: one scale of the mx formats, two of nvfp4. k is a multiple of 16.
constexpr int kScaledBlockK = 32;
constexpr int kChunksPerRow = kScaledBlockK / kChunkElements;

// Sixteen elements of a row, and their scale.
template <ElementType kElement_, ScaleType kScale_>
struct CodeChunk {
  static constexpr ElementType kElement = kElement_;
  static constexpr ScaleType kScale = kScale_;
  static constexpr int bits = kElement == ElementType::kE4M3 ? 8 : 4;
  static constexpr int words = kChunkElements * bits / 32;

  uint32_t codes[words];
  uint8_t scale;

  // Whether it holds numbers that are too small for bfloat16.
  __device__ __forceinline__ bool is_below_bfloat16() const {
    if constexpr (kElement == ElementType::kE2M1) {
      return false;
    } else {
      constexpr uint32_t first_that_fits = 127 - 124;
      return scale < first_that_fits && ((codes[0] | codes[1] | codes[2] | codes[3]) & 0x7f7f7f7f) != 0;
    }
  }
};

// Two threads have a row's k-block, a chunk each, in every kRowStep'th row of the tile. What lies outside the operand
// is zero.
template <typename Chunk, int kTileMn, int kThreads>
class ChunkLoader {
 public:
  static constexpr int kRowStep = kThreads / kChunksPerRow;
  static constexpr int kCount = (kTileMn + kRowStep - 1) / kRowStep;  // chunks of a thread in a k-block

  __device__ ChunkLoader(const BlockScaledOperand& operand, int64_t rows, int64_t k, int64_t mn_begin)
      : operand_(operand), k_(k), vectors_(reads_chunks(operand, rows, k)) {
    codes_ = static_cast<const uint8_t*>(operand.data) + (mn_begin + row(0)) * operand.stride_row +
             half() * chunk_bytes(Chunk::kElement) * operand.stride_k;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int64_t mn = mn_begin + row(i);
      if (i < kScaleRows) scales_[i] = static_cast<const uint8_t*>(operand.scale) + operand.scale_strides.of_row(mn);
      valid_ |= static_cast<uint32_t>(in_tile(i) && mn < rows) << i;
    }
  }

  // Of this thread's chunk `i`, in the tile.
  static __device__ __forceinline__ int row(int i) { return threadIdx.x / kChunksPerRow + i * kRowStep; }
  static __device__ __forceinline__ int half() { return threadIdx.x % kChunksPerRow; }
  static __device__ __forceinline__ bool in_tile(int i) { return kTileMn % kRowStep == 0 || row(i) < kTileMn; }

  // This thread's chunk `i` of k-block `block`, which may lie behind the last.
  __device__ __forceinline__ Chunk load(int i, int block) const {
    Chunk chunk = {};
    if (!(valid_ >> i & 1) || block * kScaledBlockK + half() * kChunkElements >= k_) return chunk;
    const uint8_t* codes =
        codes_ + i * kRowStep * operand_.stride_row +
        static_cast<int64_t>(block) * (kChunksPerRow * chunk_bytes(Chunk::kElement)) * operand_.stride_k;
    const int scale = Chunk::kScale == ScaleType::kE4M3 ? block * kChunksPerRow + half() : block;
    const ScaleStrides& strides = operand_.scale_strides;
    chunk.scale = kScaleRows == 1
                      ? scales_[0][i * (kRowStep / kScaleBlockRows) * strides.row_block + strides.of_col(scale)]
                      : scales_[i][strides.of_col(scale)];
    if (vectors_) {
      struct alignas(Chunk::words * 4) Vector {
        uint32_t words[Chunk::words];
      };
      const Vector vector = *reinterpret_cast<const Vector*>(codes);
#pragma unroll
      for (int w = 0; w < Chunk::words; ++w) chunk.codes[w] = vector.words[w];
    } else {
      gather(codes, chunk.codes);
    }
    return chunk;
  }

 private:
  // Rows that are whole row blocks apart are so in the scales, too.
  static constexpr int kScaleRows = kRowStep % kScaleBlockRows == 0 ? 1 : kCount;

  // Through the top, byte by byte: a loop without arrays keeps this rare way out of the registers of the usual one.
  __device__ __forceinline__ void gather(const uint8_t* codes, uint32_t (&words)[Chunk::words]) const {
#pragma unroll 1
    for (int i = 0; i < Chunk::words * 4; ++i) {
#pragma unroll
      for (int w = 0; w + 1 < Chunk::words; ++w) words[w] = __funnelshift_r(words[w], words[w + 1], 8);
      words[Chunk::words - 1] = __funnelshift_r(words[Chunk::words - 1], codes[i * operand_.stride_k], 8);
    }
  }

  const BlockScaledOperand& operand_;
  const int64_t& k_;  // in the parameters, where it costs no register
  bool vectors_;
  const uint8_t* codes_;               // of this thread's first row, in k-block 0
  const uint8_t* scales_[kScaleRows];  // of each row, at column 0
  uint32_t valid_ = 0;
};

}  // namespace tileon::sm80
