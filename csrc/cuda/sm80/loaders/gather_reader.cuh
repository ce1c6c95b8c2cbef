// Operands that no 16-byte chunk fits on their way from global to shared memory: any strides, any alignment.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// A word of shared memory, of the elements in global memory that fill it.
__device__ __forceinline__ uint32_t word_of(AnyFloat8 first, AnyFloat8 second, bool e4m3) {
  return float16_pair(first, second, e4m3);
}
template <typename Stored>
__device__ __forceinline__ uint32_t word_of(Stored first, Stored second, bool) {
  static_assert(sizeof(Stored) == 2);
  return ptx::prmt(*reinterpret_cast<const uint16_t*>(&first), *reinterpret_cast<const uint16_t*>(&second), 0x5410);
}

// Fetches k-blocks in order. A warp takes whole rows of the tile, its lanes a word each: they read neighbouring
// addresses of the operand's major dimension, which may have any stride. Everything outside the operand becomes zero.
//
// Words that are aligned in global memory too come by cp.async. Others (16-bit elements at odd places or with gaps
// between them, and fp8, which becomes float16) are loaded element by element, and wait in registers from `fetch` to
// the next `land`, so that the loads overlap one k-block's products. `Stored` is an element in global memory, which may
// be fp8 as `dtype` says; ElementInTile is what the tile holds.
template <typename Stored, typename Tile, int kTileMn, int kBlockK, int kThreads>
class GatherReader {
  static constexpr int kPerWord = 4 / int(sizeof(ElementInTile<Stored>));
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kLaneRows = Tile::rows / kWarps;
  static constexpr int kLaneWords = Tile::row_bytes / 4 / 32;  // of a row
  static constexpr int kWordStepBytes = 32 * 4;                // between two of them in the tile
  static constexpr int kWordStep = 32 * kPerWord;              // and in the operand, in elements
  static_assert(Tile::rows % kWarps == 0 && Tile::row_bytes % kWordStepBytes == 0);
  static_assert(kWarps % kChunksPerLine == 0, "all of a lane's rows have the same swizzle");

 public:
  __device__ GatherReader(const Matrix& operand, DType dtype, int64_t batch, int64_t k_begin, int64_t mn_begin,
                          int64_t mn_size)
      : mn_count_(static_cast<int>(mn_size - mn_begin < kTileMn ? mn_size - mn_begin : kTileMn)),
        e4m3_(dtype == DType::kFloat8E4M3) {
    constexpr bool along_k = Tile::major == Major::kK;
    const int64_t stride_along = along_k ? operand.stride_k : operand.stride_mn;
    const int64_t stride_row = along_k ? operand.stride_mn : operand.stride_k;
    const auto* tile = static_cast<const Stored*>(operand.data) + batch * operand.stride_batch +
                       k_begin * operand.stride_k + mn_begin * operand.stride_mn;
    if constexpr (kCopiesWords) {
      const auto begin = static_cast<int>(reinterpret_cast<uintptr_t>(tile));
      words_ = kPerWord == 1 || (stride_along == 1 && (begin % 4 | static_cast<int>(stride_row) % kPerWord) == 0);
    }
    source_ = tile + warp() * stride_row + lane() * kPerWord * stride_along;
    stride_along_ = stride_along;
    row_step_ = kWarps * stride_row;
    block_step_ = kBlockK * operand.stride_k;
  }

  // Starts the way of the next k-block, of which `k_count` lie inside the operand, into the tile at `shared`.
  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
    const int rows = (Tile::major == Major::kK ? mn_count_ : k_count) - warp();
    const int left = (Tile::major == Major::kK ? k_count : mn_count_) - lane() * kPerWord;  // along the lanes
    if (kCopiesWords && words_) {
      copy_words(shared + place(), rows, left);
    } else {
      load_elements(rows, left);
      landing_ = shared + place();
      waits_ = true;
    }
    source_ += block_step_;
  }

  // Brings the elements that wait to the tile of their `fetch`.
  __device__ __forceinline__ void land() {
    if (!waits_) return;
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i)
#pragma unroll
      for (int j = 0; j < kLaneWords; ++j)
        if constexpr (kPerWord == 2)
          ptx::store_shared_4(landing_ + offset(i, j), word_of(waiting_[i][j][0], waiting_[i][j][1], e4m3_));
    waits_ = false;
  }

 private:
  static constexpr bool kCopiesWords = !std::is_same_v<Stored, AnyFloat8>;

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  // In bytes: of the lane's first word in the tile, and of its others from there.
  static __device__ __forceinline__ uint32_t place() { return Tile::offset(warp(), lane() / 4) + lane() % 4 * 4; }
  static __device__ __forceinline__ uint32_t offset(int i, int j) {
    return i * kWarps * Tile::row_bytes + j * kWordStepBytes;
  }

  __device__ __forceinline__ void copy_words(uint32_t to, int rows, int left) const {
    const Stored* row = source_;
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i, row += row_step_)
#pragma unroll
      for (int j = 0; j < kLaneWords; ++j) {
        const int count = i * kWarps < rows ? left - j * kWordStep : 0;
        const Stored* from = kPerWord == 1 ? row + j * kWordStep * stride_along_ : row + j * kWordStep;
        ptx::cp_async_element<4>(to + offset(i, j), from, max(0, min(count, kPerWord)) * int(sizeof(Stored)));
      }
  }

  __device__ __forceinline__ void load_elements(int rows, int left) {
    const Stored* row = source_;
#pragma unroll
    for (int i = 0; i < kLaneRows; ++i, row += row_step_)
#pragma unroll
      for (int j = 0; j < kLaneWords; ++j)
#pragma unroll
        for (int e = 0; e < kPerWord; ++e) {
          waiting_[i][j][e] = Stored{};
          if (i * kWarps < rows && j * kWordStep + e < left)
            waiting_[i][j][e] = row[(j * kWordStep + e) * stride_along_];
        }
  }

  const Stored* source_;  // of the lane's first word in the next k-block
  int64_t stride_along_;  // in elements
  int64_t row_step_;
  int64_t block_step_;
  int mn_count_;  // rows (columns, of b) of the tile that lie inside the operand
  bool e4m3_;     // else e5m2, of fp8
  bool words_ = false;
  bool waits_ = false;
  uint32_t landing_ = 0;
  // a register an element: packing would wait for the loads
  Stored waiting_[kLaneRows][kLaneWords][kPerWord];
};

}  // namespace tileon::sm80
