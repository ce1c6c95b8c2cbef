// The products of all k-blocks, and beside them the decoding of those to come.
//
// Half of the warps decode before they multiply, the others after it, so that of the two that share a scheduler one has
// work for the tensor cores while the other one decodes; in step with each other they would do both one after the
// other. Of three stages one is multiplied, the next one is complete, so that its first fragments can be loaded early,
// and the third one is decoded into.
#pragma once

#include <cstdint>

#include "cuda/sm80/block_scaled/chunk_reader.cuh"
#include "cuda/sm80/tile/fragments.cuh"

namespace tileon::sm80 {

// The three stages; a k-block moves from one role to the next at each barrier.
template <typename Kernel>
class DecodedStages {
  static constexpr int kPieces = Kernel::ReaderA::kCount + Kernel::ReaderB::kCount;
  static constexpr int kStageBytes = Kernel::TileA::bytes + Kernel::TileB::bytes;

 public:
  static constexpr int bytes = 3 * kStageBytes;

  // Lands k-blocks 0 and 1, and loads 2.
  __device__ __forceinline__ DecodedStages(uint32_t shared, typename Kernel::ReaderA& a, typename Kernel::ReaderB& b)
      : current_(shared), next_(shared + kStageBytes), landing_(shared + 2 * kStageBytes), reader_a_(a), reader_b_(b) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) load(piece, 0);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      land(piece, current_);
      load(piece, 1);
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      land(piece, next_);
      load(piece, 2);
    }
    __syncthreads();
  }

  // While k-block `block` is multiplied: decodes the one after the next, and loads the one after that.
  __device__ __forceinline__ void move(int block) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      land(piece, landing_);
      load(piece, block + 3);
    }
  }

  // Ends a k-block: returns when all threads have read it and the one that was landing lies there for all of them.
  __device__ __forceinline__ void turn() {
    __syncthreads();
    const uint32_t free = current_;
    current_ = next_;
    next_ = landing_;
    landing_ = free;
  }

  // Where k-blocks lie: the one being multiplied, and the one behind it.
  __device__ __forceinline__ uint32_t current() const { return current_; }
  __device__ __forceinline__ uint32_t next() const { return next_; }

 private:
  __device__ __forceinline__ void load(int piece, int block) {
    piece < Kernel::ReaderA::kCount ? reader_a_.load(piece, block)
                                    : reader_b_.load(piece - Kernel::ReaderA::kCount, block);
  }

  __device__ __forceinline__ void land(int piece, uint32_t stage) {
    piece < Kernel::ReaderA::kCount ? reader_a_.land(piece, stage)
                                    : reader_b_.land(piece - Kernel::ReaderA::kCount, stage + Kernel::TileA::bytes);
  }

  uint32_t current_, next_, landing_;
  typename Kernel::ReaderA& reader_a_;
  typename Kernel::ReaderB& reader_b_;
};

// Fragments are loaded sixteen rows ahead, those of b for half a k-block, those of a for these rows of it: earlier,
// they would take the registers that decoding needs.
template <typename Kernel>
__device__ __forceinline__ void multiply_decoded(DecodedStages<Kernel>& stages,
                                                 const typename Kernel::LoaderA& loader_a,
                                                 const typename Kernel::LoaderB& loader_b, int blocks,
                                                 float (&sums)[Kernel::fragments_m][Kernel::fragments_n][4]) {
  static_assert(Kernel::k_steps == 2);
  const bool decodes_first = threadIdx.x < Kernel::threads / 2;
  constexpr int kSlots = 2 * Kernel::fragments_m;
  uint32_t a[2][4];
  uint32_t b[2][Kernel::LoaderB::kCount][4];
  loader_a.load_one(stages.current(), 0, 0, a[0]);
  loader_b.load(stages.current() + Kernel::TileA::bytes, 0, b[0]);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    if (decodes_first) stages.move(block);
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int half = slot / Kernel::fragments_m, m = slot % Kernel::fragments_m;
      const bool is_last = slot + 1 == kSlots;
      loader_a.load_one(is_last ? stages.next() : stages.current(), (slot + 1) % kSlots / Kernel::fragments_m,
                        (slot + 1) % Kernel::fragments_m, a[(slot + 1) % 2]);
      if (m == Kernel::fragments_m - 1) {
        const uint32_t stage = half == 0 ? stages.current() : stages.next();
        loader_b.load(stage + Kernel::TileA::bytes, 1 - half, b[1 - half]);
      }
      multiply_row<typename Kernel::Element, typename Kernel::Element>(m, a[slot % 2], b[half], sums[m]);
    }
    if (!decodes_first) stages.move(block);
    stages.turn();
  }
}

}  // namespace tileon::sm80
