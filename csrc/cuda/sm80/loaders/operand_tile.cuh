// One operand's k-blocks on their way from global to shared memory, for the tensor-core kernels.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/common/swizzle.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/cp_async.cuh"

namespace tileon::sm80 {

// A k-block of one operand in shared memory: rows of 16-byte chunks, swizzled. The rows run along the operand's major
// dimension: [mn][block_k] where kMajor is kK, [block_k][mn] where it is kMn.
template <typename Element, int kTileMn, int kBlockK, Major kMajor>
struct OperandTile {
  static constexpr Major major = kMajor;
  static constexpr int elements_per_chunk = kChunkBytes / int(sizeof(Element));
  static constexpr int rows = kMajor == Major::kK ? kTileMn : kBlockK;
  static constexpr int chunks_per_row = (kMajor == Major::kK ? kBlockK : kTileMn) / elements_per_chunk;
  static constexpr int row_bytes = chunks_per_row * kChunkBytes;
  static constexpr int bytes = rows * row_bytes;
  // 16-bit fragments come through ldmatrix in both majors; others cannot be transposed by it.
  static_assert(sizeof(Element) > 1 || kMajor == Major::kK);
  static constexpr Swizzle swizzle =
      kMajor == Major::kMn && sizeof(Element) == 4 ? Swizzle::kWordColumns : Swizzle::kChunkColumns;

  // In bytes from the tile's start.
  static __device__ __forceinline__ uint32_t offset(int row, int chunk) {
    return row * row_bytes + swizzled_chunk<swizzle, chunks_per_row>(row, chunk) * kChunkBytes;
  }
};

__device__ __forceinline__ int clamp_to_chunk(int64_t bytes) {
  return bytes <= 0 ? 0 : bytes < kChunkBytes ? static_cast<int>(bytes) : kChunkBytes;
}

// Fetches k-blocks in order, chunk by chunk, with cp.async. Everything outside the operand becomes zero.
template <typename Element, typename Tile, int kTileMn, int kBlockK, int kThreads>
class VectorReader {
  static constexpr int kChunksPerThread = Tile::rows * Tile::chunks_per_row / kThreads;
  static constexpr int kRowStep = kThreads / Tile::chunks_per_row;  // rows between two chunks of one thread
  static_assert(Tile::rows * Tile::chunks_per_row % kThreads == 0 && kThreads % Tile::chunks_per_row == 0);

 public:
  __device__ VectorReader(const Matrix& operand, DType, int64_t batch, int64_t k_begin, int64_t mn_begin,
                          int64_t mn_size) {
    row_ = threadIdx.x / Tile::chunks_per_row;
    chunk_ = threadIdx.x % Tile::chunks_per_row;
    const auto* data =
        static_cast<const Element*>(operand.data) + batch * operand.stride_batch + k_begin * operand.stride_k;
    const int in_row = chunk_ * Tile::elements_per_chunk;
    if constexpr (Tile::major == Major::kK) {
      source_ = data + (mn_begin + row_) * operand.stride_mn + in_row;
      row_step_ = kRowStep * operand.stride_mn;
      block_step_ = kBlockK;
      for (int i = 0; i < kChunksPerThread; ++i)
        valid_rows_ |= static_cast<uint32_t>(mn_begin + row_ + i * kRowStep < mn_size) << i;
    } else {
      source_ = data + row_ * operand.stride_k + mn_begin + in_row;
      row_step_ = kRowStep * operand.stride_k;
      block_step_ = kBlockK * operand.stride_k;
      chunk_bytes_ = clamp_to_chunk((mn_size - mn_begin - in_row) * int(sizeof(Element)));
    }
  }

  // Starts the copies of the next k-block, of which `k_count` lie inside the operand, into the tile at `shared`.
  __device__ __forceinline__ void fetch(uint32_t shared, int k_count) {
    if constexpr (Tile::major == Major::kK)
      chunk_bytes_ = clamp_to_chunk((k_count - chunk_ * Tile::elements_per_chunk) * int(sizeof(Element)));
#pragma unroll
    for (int i = 0; i < kChunksPerThread; ++i) {
      const bool valid = Tile::major == Major::kK ? (valid_rows_ >> i & 1) : row_ + i * kRowStep < k_count;
      ptx::cp_async_16(shared + Tile::offset(row_ + i * kRowStep, chunk_), source_ + i * row_step_,
                       valid ? chunk_bytes_ : 0);
    }
    source_ += block_step_;
  }

  // The hardware puts the copies where they belong.
  __device__ __forceinline__ void land() {}

 private:
  int row_;    // this thread's first chunk
  int chunk_;  // the same in all of this thread's rows
  const Element* source_;
  int64_t row_step_;    // in elements
  int64_t block_step_;  // in elements
  int chunk_bytes_ = 0;
  uint32_t valid_rows_ = 0;
};

// fp8 numbers on their way to kernels that have no instructions for them become float16, which holds every one of them.

// An element of fp8 operands of either kind; which, a kernel is told at run time.
struct AnyFloat8 {
  uint8_t code;
};

// An element in shared memory, by what it is in global memory.
template <typename Stored>
using ElementInTile = std::conditional_t<std::is_same_v<Stored, AnyFloat8>, __half, Stored>;

// All of these are exact, and NaN stays NaN.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// Of two codes of e4m3 in a word's low half.
__device__ __forceinline__ uint32_t float16_of_e4m3(uint32_t codes) {
  const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
#endif

// Of two codes that are the high bytes of a word's halves.
__device__ __forceinline__ uint32_t float16_of_codes(uint32_t codes, bool e4m3) {
  if (!e4m3) return codes;                                 // e5m2 is float16 without its low byte
  const uint32_t magnitudes = (codes & 0x7f007f00u) >> 1;  // exponent and fraction at float16's places
  __half2 values = *reinterpret_cast<const __half2*>(&magnitudes);
  values = __hmul2(values, __float2half2_rn(256.0f));  // the exponents' biases are 7 and 15
  // 0x7f, which is NaN, is 480 now. It alone overflows here (448 * 146 is 65408), and infinity * 0 is NaN.
  const __half2 overflowed = __hmul2(values, __float2half2_rn(146.0f));
  values = __hfma2(overflowed, __float2half2_rn(0.0f), values);
  return *reinterpret_cast<const uint32_t*>(&values) | (codes & 0x80008000u);
}

// Of two codes in words of their own, the first in the low half.
__device__ __forceinline__ uint32_t float16_pair(uint32_t first, uint32_t second, bool e4m3) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (e4m3) return float16_of_e4m3(ptx::prmt(first, second, 0x1140));
#endif
  return float16_of_codes(ptx::prmt(first, second, 0x4101), e4m3);  // each the high byte of its half
}
__device__ __forceinline__ uint32_t float16_pair(AnyFloat8 first, AnyFloat8 second, bool e4m3) {
  return float16_pair(uint32_t{first.code}, uint32_t{second.code}, e4m3);
}

// Of the four codes of a word, in order.
__device__ __forceinline__ void float16_pairs(uint32_t codes, bool e4m3, uint32_t (&pairs)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (e4m3) {
    pairs[0] = float16_of_e4m3(codes);
    pairs[1] = float16_of_e4m3(codes >> 16);
    return;
  }
#endif
  pairs[0] = float16_of_codes(ptx::prmt(codes, 0, 0x1404), e4m3);
  pairs[1] = float16_of_codes(ptx::prmt(codes, 0, 0x3424), e4m3);
}

}  // namespace tileon::sm80
