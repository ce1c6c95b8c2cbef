// The tile once more, for numbers that are too small for bfloat16: e4m3 under scales below 2^-124. As TF32, which keeps
// 2^-136 and so every product of a code and its scale, the tensor core multiplies them exactly too. Such scales are as
// good as zero, so this is short instead of fast: a k-block is decoded, then multiplied.
#pragma once

#include <cstdint>

#include "../mma/fragments.cuh"
#include "reader.cuh"

namespace tileon::sm80 {

template <typename Chunk, int kTileMn, int kThreads>
struct WideOperand {
  using Tile = OperandTile<float, kTileMn, kScaledBlockK, Major::kK>;
  using Loader = ChunkLoader<Chunk, kTileMn, kThreads>;

  // Decodes one chunk into row `row`; `first` is its first element in the k-block.
  static __device__ __forceinline__ void store(uint32_t shared, const Chunk& chunk, int row, int first) {
    constexpr int bits = Chunk::kElement == ElementType::kE4M3 ? 8 : 4;
    const uint32_t words[4] = {chunk.codes.x, chunk.codes.y, chunk.codes.z, chunk.codes.w};
#pragma unroll
    for (int i = 0; i < Chunk::elements; i += 4) {
      const uint32_t codes = words[i * bits / 32] >> (i * bits % 32);
      const uint32_t scale_byte = chunk.scale[i / (Chunk::elements / Chunk::scales)];
      const float scale = Chunk::kScale == ScaleType::kE8M0 ? e8m0_value(scale_byte) : e4m3_value(scale_byte);
      uint32_t values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t code = codes >> (j * bits) & ((1 << bits) - 1);
        values[j] = bits_of((bits == 8 ? e4m3_value(code) : e2m1_value(code)) * scale);
      }
      ptx::store_shared_16(shared + Tile::offset(row, (first + i) / 4), {values[0], values[1], values[2], values[3]});
    }
  }

  static __device__ __forceinline__ void decode_next(Loader& loader, uint32_t shared, int k_count) {
    Chunk chunks[Loader::kCount];
    loader.load(k_count, chunks);
#pragma unroll
    for (int i = 0; i < Loader::kCount; ++i)
      if (Loader::in_tile(i))
        store(shared, chunks[i], Loader::row(i), threadIdx.x % Chunk::chunks_per_row * Chunk::elements);
  }
};

// Sums the whole of k anew. All threads of the CTA take part; `shared` is theirs.
template <typename Kernel>
__device__ __forceinline__ void multiply_wide(typename Kernel::WideA::Loader load_a,
                                              typename Kernel::WideB::Loader load_b, int64_t k, const CtaTile& tile,
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
  for (int64_t begin = 0; begin < k; begin += kScaledBlockK) {
    const int k_count = k - begin < kScaledBlockK ? static_cast<int>(k - begin) : kScaledBlockK;
    WideA::decode_next(load_a, shared, k_count);
    WideB::decode_next(load_b, shared_b, k_count);
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
