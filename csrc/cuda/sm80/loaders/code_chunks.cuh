// One operand's k-blocks on their way from codes and scales in global memory to bfloat16 in shared memory.
#pragma once

#include <cstdint>

#include "cuda/common/decode.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// A k-block of a row has one scale of the mx formats, two of nvfp4. k is a multiple of 16.
constexpr int kScaledBlockK = 32;

// Elements of a row, 16 or 32, and the scale that they share.
template <DType kElement_, ScaleType kScale_, int kElements>
struct CodeChunk {
  static constexpr DType kElement = kElement_;
  static constexpr ScaleType kScale = kScale_;
  static constexpr int bits = kElement == DType::kFloat8E4M3 ? 8 : 4;
  static constexpr int elements = kElements;
  static constexpr int words = kElements * bits / 32;

  uint32_t codes[words];
  uint8_t scale;
};

// Thirty-two of mxfp4, where a tile has a row for every thread: a scale costs about as much as eight codes. Else
// sixteen.
template <DType kElement, ScaleType kScale, int kTileMn, int kThreads>
using ChunkOf =
    CodeChunk<kElement, kScale,
              kElement == DType::kFloat4E2M1 && kScale == ScaleType::kE8M0 && kTileMn >= kThreads ? 32 : 16>;

// One or two threads have a row's k-block, a chunk each, in every kRowStep'th row of the tile. There is no branch here,
// so that the main loop stays one sequence of instructions: rows and k-blocks outside the operand repeat its last one;
// their products are not stored.
template <typename Chunk, int kTileMn, int kThreads>
class ChunkLoader {
  struct alignas(Chunk::words * 4) Vector {
    uint32_t words[Chunk::words];
  };

 public:
  static constexpr int kChunksPerRow = kScaledBlockK / Chunk::elements;
  static constexpr int kRowStep = kThreads / kChunksPerRow;
  static constexpr int kCount = (kTileMn + kRowStep - 1) / kRowStep;  // chunks of a thread in a k-block

  // The operand has rows and a k.
  __device__ ChunkLoader(const ScaledKernelOperand& operand, int64_t rows, int64_t k, int64_t mn_begin)
      : stride_row_(operand.stride_row), strides_(operand.scale_strides) {
    last_block_ = static_cast<int>((k - 1) / kScaledBlockK);
    lacks_last_half_ = k % kScaledBlockK != 0 && half() != 0;
    const int64_t in_row = lacks_last_half_ && last_block_ == 0 ? 0 : half() * kChunkBytes;
    const int64_t rows_left = rows - mn_begin - row(0);
    last_ = rows_left <= 0                        ? 0
            : rows_left > (kCount - 1) * kRowStep ? kCount - 1
                                                  : static_cast<int>(rows_left - 1) / kRowStep;
    const int64_t first = rows_left > 0 ? mn_begin + row(0) : rows - 1;
    codes_ = static_cast<const uint8_t*>(operand.data) + first * operand.stride_row + in_row;
#pragma unroll
    for (int i = 0; i < kScaleRows; ++i)
      scales_[i] = static_cast<const uint8_t*>(operand.scale) + strides_.of_row(first + within(i) * kRowStep);
  }

  // The tile's row of this thread's chunk `i`, the half of its k-block, and whether the row lies in the tile.
  static __device__ __forceinline__ int row(int i) { return threadIdx.x / kChunksPerRow + i * kRowStep; }
  static __device__ __forceinline__ int half() { return threadIdx.x % kChunksPerRow; }
  static __device__ __forceinline__ bool in_tile(int i) { return kTileMn % kRowStep == 0 || row(i) < kTileMn; }

  // This thread's chunk `i` of k-block `block`.
  __device__ __forceinline__ Chunk load(int i, int block) const {
    Chunk chunk;
    if constexpr (Chunk::kScale == ScaleType::kE8M0) {  // whole k-blocks
      block = block < last_block_ ? block : last_block_;
      chunk.scale = *scale_at(i, block);
    } else {  // a last k-block may be half: for its other half a chunk of the block before, times 0
      const bool lacks = lacks_last_half_ && block >= last_block_;
      const int last = last_block_ - (lacks_last_half_ && last_block_ > 0);
      block = block < last ? block : last;
      const int col = block * kChunksPerRow + (lacks_last_half_ && last_block_ == 0 ? 0 : half());
      chunk.scale = lacks ? 0 : *scale_at(i, col);
    }
    const uint8_t* codes = codes_ + within(i) * kRowStep * stride_row_ + static_cast<int64_t>(block) * kBlockBytes;
    const auto vector = *reinterpret_cast<const Vector*>(codes);
#pragma unroll
    for (int w = 0; w < Chunk::words; ++w) chunk.codes[w] = vector.words[w];
    return chunk;
  }

 private:
  static constexpr int kChunkBytes = Chunk::words * 4;
  static constexpr int kBlockBytes = kChunksPerRow * kChunkBytes;
  // Scales of rows that are whole row blocks apart are whole row blocks apart.
  static constexpr int kScaleRows = kRowStep % kScaleBlockRows == 0 ? 1 : kCount;

  // `i`, or the last one whose row lies inside.
  __device__ __forceinline__ int within(int i) const { return i == 0 ? 0 : i < last_ ? i : last_; }

  __device__ __forceinline__ const uint8_t* scale_at(int i, int col) const {
    const int64_t at = strides_.of_col(col);
    if constexpr (kScaleRows == kCount) return scales_[i] + at;
    return scales_[0] + within(i) * (kRowStep / kScaleBlockRows) * strides_.row_block + at;
  }

  const int64_t& stride_row_;  // in the parameters, where they take no register
  const ScaleStrides& strides_;
  int last_block_;
  bool lacks_last_half_;               // nvfp4: k is an odd number of chunks, and this thread has the second halves
  int last_;                           // the last of this thread's chunks whose row lies inside the operand
  const uint8_t* codes_;               // this thread's first row, k-block 0
  const uint8_t* scales_[kScaleRows];  // each row's scales, column 0
};

// A chunk waits as codes in registers until it lands in a tile, decoded; then the same chunk of a later k-block is
// loaded. `Tile` holds kScaledBlockK elements of bfloat16 along k.
template <typename Chunk, typename Tile, int kTileMn, int kThreads>
class DequantizingReader {
  using Loader = ChunkLoader<Chunk, kTileMn, kThreads>;

 public:
  static constexpr int kCount = Loader::kCount;

  __device__ explicit DequantizingReader(const Loader& loader) : loader_(loader) {}

  __device__ __forceinline__ void load(int i, int block) { waiting_[i] = loader_.load(i, block); }

  // Decodes chunk `i` into the tile at `shared`.
  __device__ __forceinline__ void land(int i, uint32_t shared) {
    if (!Loader::in_tile(i)) return;
    const Chunk& chunk = waiting_[i];
    constexpr int vectors = Chunk::elements / 8;
    uint4 elements[vectors];
    if constexpr (Chunk::kElement == DType::kFloat8E4M3) {
      saw_beyond_bfloat16_ |= is_beyond_bfloat16(chunk.codes, chunk.scale);
      decode_e4m3<Chunk::kScale>(chunk.codes, chunk.scale, elements);
    } else {
      decode_e2m1<Chunk::kScale>(chunk.codes, chunk.scale, elements);
    }
#pragma unroll
    for (int j = 0; j < vectors; ++j)
      ptx::store_shared_16(shared + Tile::offset(Loader::row(i), Loader::half() * vectors + j), elements[j]);
  }

  // Whether codes have met this thread of which `decode` has lost something.
  __device__ __forceinline__ bool saw_beyond_bfloat16() const { return saw_beyond_bfloat16_; }

 private:
  Loader loader_;
  bool saw_beyond_bfloat16_ = false;
  Chunk waiting_[kCount];
};

}  // namespace tileon::sm80
