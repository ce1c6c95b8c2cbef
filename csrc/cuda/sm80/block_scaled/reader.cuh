// One operand's k-blocks on their way from codes and scales in global memory to bfloat16 in shared memory.
#pragma once

#include <cstdint>

#include "cuda/common/decode.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/block_scaled/chunk_loader.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

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
