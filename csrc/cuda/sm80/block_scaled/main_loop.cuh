// The products of all k-blocks, and between them, piece by piece, the decoding of those to come.
//
// Tensor cores and the arithmetic that decodes are different parts of an SM: they work at the same time only where a
// warp's instructions alternate between them. A piece is a chunk of one thread: it is decoded into shared memory and
// the same chunk of the k-block after that is loaded. Two stages take turns. One is being read until the barrier in the
// middle of a k-block, when the fragments of its second half are in registers; from there to the barrier in the next
// k-block the other's successor is decoded into it.
#pragma once

#include <cstdint>

#include "../mma/fragments.cuh"
#include "reader.cuh"

namespace tileon::sm80 {

template <typename Kernel>
class DecodedBlocks {
  static constexpr int kPieces = Kernel::ReaderA::kCount + Kernel::ReaderB::kCount;
  static constexpr int kFirstPieces = kPieces / 2;  // behind the barrier; the others come before the next one
  static constexpr int kStageBytes = Kernel::TileA::bytes + Kernel::TileB::bytes;

 public:
  static constexpr int bytes = 2 * kStageBytes;

  __device__ __forceinline__ DecodedBlocks(uint32_t shared, typename Kernel::ReaderA& a, typename Kernel::ReaderB& b)
      : shared_(shared), reader_a_(a), reader_b_(b) {}

  // Lands k-block 0, and of k-block 1 what the main loop would have landed before it begins.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) load(piece, 0);
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) move(piece, 0);
#pragma unroll
    for (int piece = 0; piece < kFirstPieces; ++piece) move(piece, 1);
    __syncthreads();
  }

  // Pieces of the first or the second part that belong behind products `slot` of `kSlots`; of k-block `block`.
  template <bool kFirst, int kSlots>
  __device__ __forceinline__ void move_pieces(int slot, int block) {
    constexpr int begin = kFirst ? 0 : kFirstPieces;
    constexpr int count = kFirst ? kFirstPieces : kPieces - kFirstPieces;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (i * kSlots / count == slot) move(begin + i, block);
  }

  __device__ __forceinline__ uint32_t a(int block) const { return shared_ + block % 2 * kStageBytes; }
  __device__ __forceinline__ uint32_t b(int block) const { return a(block) + Kernel::TileA::bytes; }

 private:
  __device__ __forceinline__ void load(int piece, int block) {
    piece < Kernel::ReaderA::kCount ? reader_a_.load(piece, block)
                                    : reader_b_.load(piece - Kernel::ReaderA::kCount, block);
  }

  __device__ __forceinline__ void move(int piece, int block) {
    piece < Kernel::ReaderA::kCount ? reader_a_.land(piece, a(block))
                                    : reader_b_.land(piece - Kernel::ReaderA::kCount, b(block));
    load(piece, block + 1);
  }

  uint32_t shared_;
  typename Kernel::ReaderA& reader_a_;
  typename Kernel::ReaderB& reader_b_;
};

template <typename Kernel>
__device__ __forceinline__ void multiply_decoded(DecodedBlocks<Kernel>& blocks,
                                                 const typename Kernel::LoaderA& loader_a,
                                                 const typename Kernel::LoaderB& loader_b, int count,
                                                 float (&sums)[Kernel::fragments_m][Kernel::fragments_n][4]) {
  static_assert(Kernel::k_steps == 2, "two fragment buffers take turns, one half of a k-block each");
  uint32_t a[2][Kernel::LoaderA::kCount][4];
  uint32_t b[2][Kernel::LoaderB::kCount][4];
  const auto load_fragments = [&](int block, int half) {
    loader_a.load(blocks.a(block), half, a[half]);
    loader_b.load(blocks.b(block), half, b[half]);
  };
  const auto multiply_half = [&](int half, const auto& meanwhile) {
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m) {
#pragma unroll
      for (int step = 0; step < Kernel::fragments_n; ++step) {
        const int n = m % 2 ? Kernel::fragments_n - 1 - step : step;  // there and back: the last b serves twice
        const auto& pair = b[half][n / 2];
        ptx::mma_m16n8<typename Kernel::Element>(sums[m][n], a[half][m], pair[n % 2 * 2], pair[n % 2 * 2 + 1]);
      }
      meanwhile(m);
    }
  };

  if (count == 0) return;
  blocks.begin();
  load_fragments(0, 0);
#pragma unroll 1
  for (int block = 0; block < count; ++block) {
    load_fragments(block, 1);
    multiply_half(0, [&](int slot) { blocks.template move_pieces<false, Kernel::fragments_m>(slot, block + 1); });
    __syncthreads();
    load_fragments(block + 1, 0);  // behind the last k-block: zeros
    multiply_half(1, [&](int slot) { blocks.template move_pieces<true, Kernel::fragments_m>(slot, block + 2); });
  }
}

}  // namespace tileon::sm80
