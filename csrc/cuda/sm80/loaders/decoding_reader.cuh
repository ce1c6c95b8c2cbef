// One operand's k-blocks on their way from any encoding in global memory to TF32 in shared memory. TF32 holds every
// number of 16 bits, every code, and every code of e4m3 or e2m1 times its scale.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/small_floats.h"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

// Four neighbours along k, as they lie in memory: the first in the lowest bits.
template <int kBits>
struct FourCodes {
  static_assert(kBits == 4 || kBits == 8);
  using Word = std::conditional_t<kBits == 8, uint32_t, uint16_t>;
  Word word = 0;

  __device__ __forceinline__ uint32_t code(int i) const { return word >> (i * kBits) & ((1 << kBits) - 1); }
};

template <>
struct FourCodes<16> {
  using Word = uint2;
  Word word = {0, 0};

  __device__ __forceinline__ uint32_t code(int i) const { return (i < 2 ? word.x : word.y) >> (i % 2 * 16) & 0xffff; }
};

// A code of kBits bits; `dtype` is the same for all threads.
template <int kBits>
__device__ __forceinline__ float number_of(uint32_t code, DType dtype) {
  if constexpr (kBits == 4) {
    return e2m1_value(code);
  } else if constexpr (kBits == 8) {
    if (dtype == DType::kInt8) return static_cast<float>(static_cast<int8_t>(code));
    return dtype == DType::kFloat8E4M3 ? e4m3_value(code) : e5m2_value(code);
  } else {
    return dtype == DType::kBFloat16 ? __uint_as_float(code << 16) : __half2float(__ushort_as_half(code));
  }
}

// Scale number `at` of a block; 1 where the elements have no scale of their own.
__device__ __forceinline__ float block_scale(const ScaledKernelOperand& operand, ScaleType type, int64_t at) {
  if (operand.scale == nullptr || type == ScaleType::kFloat32) return 1.0f;
  const uint8_t byte = static_cast<const uint8_t*>(operand.scale)[at];
  return type == ScaleType::kE8M0 ? e8m0_value(byte) : e4m3_value(byte);
}

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
        vec_bits_(vec == 16 ? 4 : vec == 32 ? 5 : 7),
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
      waiting_[i] = load(row, k, inside);
      scales_[i] =
          inside <= 0 ? 0.0f : block_scale(operand_, scale_type_, operand_.scale_strides.offset(row, k >> vec_bits_));
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

  // The element at k, of whose row `inside` are left.
  __device__ __forceinline__ Codes load(int64_t row, int64_t k, int inside) const {
    Codes codes;
    if (inside <= 0) return codes;
    const auto* bytes = static_cast<const uint8_t*>(operand_.data);
    if constexpr (kBits == 16) {
      const auto* first = reinterpret_cast<const uint16_t*>(bytes) + row * operand_.stride_row + k * operand_.stride_k;
      if (vectors_ && inside >= kPerChunk) return {*reinterpret_cast<const uint2*>(first)};
      const auto element = [&](int i) -> uint32_t { return i < inside ? first[i * operand_.stride_k] : 0; };
      return {{element(0) | element(1) << 16, element(2) | element(3) << 16}};
    } else {
      constexpr int kPerByte = 8 / kBits, kBytes = kPerChunk / kPerByte;
      const uint8_t* first = bytes + row * operand_.stride_row + k / kPerByte * operand_.stride_k;
      if (vectors_ && inside >= kPerChunk) return {*reinterpret_cast<const typename Codes::Word*>(first)};
      uint32_t word = 0;
#pragma unroll
      for (int i = 0; i < kBytes; ++i)
        if (i * kPerByte < inside) word |= static_cast<uint32_t>(first[i * operand_.stride_k]) << 8 * i;
      return {static_cast<typename Codes::Word>(word)};
    }
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
