// The tile once more, for e4m3 of which bfloat16 loses something: numbers under scales below 2^-124, and NaNs, for
// which the fast way has no time. As TF32, which keeps 2^-136 and so every product of a code and its scale, the tensor
// core multiplies them exactly too. Such numbers are as good as zero, or an error, so this is short instead of fast: a
// k-block is decoded, then multiplied.
#pragma once

#include <cstdint>

#include "cuda/sm80/block_scaled/chunk_reader.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"
#include "cuda/sm80/tile/fragments.cuh"

namespace tileon::sm80 {

template <typename Chunk, int kTileMn, int kThreads>
struct WideOperand {
  using Tile = OperandTile<float, kTileMn, kScaledBlockK, Major::kK>;
  using Loader = ChunkLoader<Chunk, kTileMn, kThreads>;

  static __device__ __forceinline__ void store(uint32_t shared, const Chunk& chunk, int row) {
    const float scale = Chunk::kScale == ScaleType::kE8M0 ? e8m0_value(chunk.scale) : e4m3_value(chunk.scale);
#pragma unroll
    for (int i = 0; i < Chunk::elements; i += 4) {
      const uint32_t codes = chunk.codes[i * Chunk::bits / 32] >> (i * Chunk::bits % 32);
      uint32_t values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t code = codes >> (j * Chunk::bits) & ((1 << Chunk::bits) - 1);
        values[j] = bits_of((Chunk::bits == 8 ? e4m3_value(code) : e2m1_value(code)) * scale);
      }
      ptx::store_shared_16(shared + Tile::offset(row, (Loader::half() * Chunk::elements + i) / 4),
                           {values[0], values[1], values[2], values[3]});
    }
  }

  static __device__ __forceinline__ void decode_block(const Loader& loader, uint32_t shared, int block) {
#pragma unroll
    for (int i = 0; i < Loader::kCount; ++i)
      if (Loader::in_tile(i)) store(shared, loader.load(i, block), Loader::row(i));
  }
};

// Sums the whole of k anew. All threads of the CTA take part; `shared` is theirs.
template <typename Kernel>
__device__ __forceinline__ void multiply_wide(const typename Kernel::WideA::Loader& load_a,
                                              const typename Kernel::WideB::Loader& load_b, const CtaTile& tile,
                                              uint32_t shared,
                                              float (&sums)[Kernel::fragments_m][Kernel::fragments_n][4]) {
  using WideA = typename Kernel::WideA;
  using WideB = typename Kernel::WideB;
  const FragmentLoader<float, typename WideA::Tile, Side::kA, Kernel::config.warp_m()> fragments_a(tile.warp_m,
                                                                                                   threadIdx.x % 32);
  const FragmentLoader<float, typename WideB::Tile, Side::kB, Kernel::config.warp_n()> fragments_b(tile.warp_n,
                                                                                                   threadIdx.x % 32);
  const uint32_t shared_b = shared + WideA::Tile::bytes;
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (auto& fragment : row)
#pragma unroll
      for (float& sum : fragment) sum = 0;
#pragma unroll 1
  for (int block = 0; block < tile.k_blocks; ++block) {
    WideA::decode_block(load_a, shared, block);
    WideB::decode_block(load_b, shared_b, block);
    __syncthreads();
#pragma unroll 1
    for (int k_step = 0; k_step < kScaledBlockK * 4 / kBytesPerKStep; ++k_step) {
      uint32_t a[Kernel::fragments_m][4];
      uint32_t b[Kernel::fragments_n / 2][4];
      fragments_a.load(shared, k_step, a);
      fragments_b.load(shared_b, k_step, b);
#pragma unroll
      for (int m = 0; m < Kernel::fragments_m; ++m)
#pragma unroll
        for (int n = 0; n < Kernel::fragments_n; ++n)
          ptx::mma_m16n8<float>(sums[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
    __syncthreads();  // before the next k-block takes this one's place
  }
}

}  // namespace tileon::sm80
