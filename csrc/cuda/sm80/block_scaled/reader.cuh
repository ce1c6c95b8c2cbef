// One operand's k-blocks on their way from codes and scales in global memory to bfloat16 in shared memory.
#pragma once

#include <cstdint>

#include "../../../problem.h"
#include "../../ptx/shared.cuh"
#include "../operand_tile.cuh"
#include "decode.cuh"
#include "operand_access.h"

namespace tileon::sm80 {

// A k-block is 32 elements: one scale of the mx formats, two of nvfp4. k is a multiple of 16.
constexpr int kScaledBlockK = 32;

// Sixteen bytes of codes and the scales of theirs: a row's k-block of e2m1, half of one of e4m3.
template <ElementType kElement_, ScaleType kScale_>
struct CodeChunk {
  static constexpr ElementType kElement = kElement_;
  static constexpr ScaleType kScale = kScale_;
  static constexpr int scales = kScale == ScaleType::kE4M3 ? 2 : 1;
  static constexpr int chunks_per_row = kElement == ElementType::kE4M3 ? 2 : 1;
  static constexpr int elements = kScaledBlockK / chunks_per_row;

  uint4 codes;
  uint8_t scale[scales];

  // Whether it holds numbers that are too small for bfloat16.
  __device__ __forceinline__ bool is_below_bfloat16() const {
    constexpr uint32_t first_that_fits = 127 - 124;
    if constexpr (kElement == ElementType::kE2M1) return false;
    return scale[0] < first_that_fits && ((codes.x | codes.y | codes.z | codes.w) & 0x7f7f7f7f) != 0;
  }
};

// Loads a thread's chunks of the k-blocks, in order. Chunks outside the operand stay zero: their rows are never stored.
template <typename Chunk, int kTileMn, int kThreads>
class ChunkLoader {
 public:
  static constexpr int kRowStep = kThreads / Chunk::chunks_per_row;  // between two rows of one thread
  static constexpr int kCount = (kTileMn + kRowStep - 1) / kRowStep;

  __device__ ChunkLoader(const BlockScaledOperand& operand, CodeAccess access, int64_t mn_begin, int64_t mn_size)
      : operand_(operand), access_(access) {
    const int in_row = threadIdx.x % Chunk::chunks_per_row * 16;
    codes_ = static_cast<const uint8_t*>(operand.data) + (mn_begin + row(0)) * operand.stride_row +
             in_row * operand.stride_k;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int64_t mn = mn_begin + row(i);
      scales_[i] = static_cast<const uint8_t*>(operand.scale) + operand.scale_strides.of_row(mn);
      valid_ |= static_cast<uint32_t>(row(i) < kTileMn && mn < mn_size) << i;
    }
  }

  // Of this thread's chunk `i`, in the tile.
  static __device__ __forceinline__ int row(int i) { return threadIdx.x / Chunk::chunks_per_row + i * kRowStep; }
  static __device__ __forceinline__ bool in_tile(int i) { return kTileMn % kRowStep == 0 || row(i) < kTileMn; }

  // The chunks of the next k-block, of which `k_count` (16 or 32) elements lie inside the operand.
  __device__ __forceinline__ void load(int k_count, Chunk (&chunks)[kCount]) {
    const ScaleStrides& strides = operand_.scale_strides;
    const int64_t first = strides.of_col(block_ * Chunk::scales);
    const int64_t second = Chunk::scales == 2 ? strides.of_col(block_ * 2 + 1) : 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint8_t* codes = codes_ + i * kRowStep * operand_.stride_row;
      chunks[i] = {};
      if (!(valid_ >> i & 1)) continue;
      chunks[i].codes = load_codes(codes, k_count == kScaledBlockK ? 16 : 8);
      chunks[i].scale[0] = scales_[i][first];
      if constexpr (Chunk::scales == 2)
        if (k_count == kScaledBlockK) chunks[i].scale[1] = scales_[i][second];
    }
    codes_ += 16 * Chunk::chunks_per_row * operand_.stride_k;
    ++block_;
  }

 private:
  // The first `bytes` (8 or 16) of a chunk, zeros behind them.
  __device__ __forceinline__ uint4 load_codes(const uint8_t* codes, int bytes) const {
    if (access_ == CodeAccess::k16Bytes && bytes == 16) return *reinterpret_cast<const uint4*>(codes);
    uint4 loaded = {};
    if (access_ != CodeAccess::kBytes) {
      *reinterpret_cast<uint2*>(&loaded.x) = *reinterpret_cast<const uint2*>(codes);
      if (bytes == 16) *reinterpret_cast<uint2*>(&loaded.z) = *reinterpret_cast<const uint2*>(codes + 8);
      return loaded;
    }
    // Through the top, byte by byte: a loop without arrays keeps this rare way out of the registers of the usual one.
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
      const uint32_t byte = i < bytes ? codes[i * operand_.stride_k] : 0;
      loaded.x = __funnelshift_r(loaded.x, loaded.y, 8);
      loaded.y = __funnelshift_r(loaded.y, loaded.z, 8);
      loaded.z = __funnelshift_r(loaded.z, loaded.w, 8);
      loaded.w = __funnelshift_r(loaded.w, byte, 8);
    }
    return loaded;
  }

  const BlockScaledOperand& operand_;
  CodeAccess access_;
  const uint8_t* codes_;           // of this thread's first row, in the k-block that is loaded next
  const uint8_t* scales_[kCount];  // of each row, at column 0
  int block_ = 0;
  uint32_t valid_ = 0;
};

// A reader as the ring knows them (ring.cuh): a k-block waits as codes in registers from `fetch` to the next `land`,
// which decodes it. `Tile` holds kScaledBlockK elements of bfloat16 along k.
template <typename Chunk, typename Tile, int kTileMn, int kThreads>
class DequantizingReader {
  using Loader = ChunkLoader<Chunk, kTileMn, kThreads>;

 public:
  __device__ DequantizingReader(const BlockScaledOperand& operand, CodeAccess access, int64_t mn_begin, int64_t mn_size)
      : loader_(operand, access, mn_begin, mn_size) {}

  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
    loader_.load(k_count, waiting_);
    landing_ = shared;
    waits_ = true;
  }

  __device__ __forceinline__ void land() {
    if (!waits_) return;
#pragma unroll
    for (int i = 0; i < Loader::kCount; ++i) {
      if (!Loader::in_tile(i)) continue;
      if constexpr (Chunk::kElement == ElementType::kE4M3) {
        land_e4m3(waiting_[i], Loader::row(i));
      } else {
        land_e2m1(waiting_[i], Loader::row(i));
      }
    }
    waits_ = false;
  }

  // Whether a number has met this thread that bfloat16 does not hold.
  __device__ __forceinline__ bool saw_below_bfloat16() const { return saw_below_bfloat16_; }

 private:
  __device__ __forceinline__ void land_e4m3(const Chunk& chunk, int row) {
    saw_below_bfloat16_ = saw_below_bfloat16_ || chunk.is_below_bfloat16();
    uint4 halves[2];
    decode_e4m3(chunk.codes, chunk.scale[0], halves);
    const int first = threadIdx.x % 2 * 2;
    ptx::store_shared_16(landing_ + Tile::offset(row, first), halves[0]);
    ptx::store_shared_16(landing_ + Tile::offset(row, first + 1), halves[1]);
  }

  __device__ __forceinline__ void land_e2m1(const Chunk& chunk, int row) {
    const E2M1Table first(scale_pair<Chunk::kScale>(chunk.scale[0]));
    ptx::store_shared_16(landing_ + Tile::offset(row, 0), first.decode(chunk.codes.x));
    ptx::store_shared_16(landing_ + Tile::offset(row, 1), first.decode(chunk.codes.y));
    const E2M1Table second =
        Chunk::scales == 2 ? E2M1Table(scale_pair<Chunk::kScale>(chunk.scale[Chunk::scales - 1])) : first;
    ptx::store_shared_16(landing_ + Tile::offset(row, 2), second.decode(chunk.codes.z));
    ptx::store_shared_16(landing_ + Tile::offset(row, 3), second.decode(chunk.codes.w));
  }

  Loader loader_;
  uint32_t landing_ = 0;
  bool waits_ = false;  // whether a k-block is in registers
  bool saw_below_bfloat16_ = false;
  Chunk waiting_[Loader::kCount];
};

}  // namespace tileon::sm80
