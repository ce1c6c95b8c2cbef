// From the sums of prepared operands to the product: the counterparts of Unscaled (mainloop/kernel.cuh).
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/mainloop/kernel.cuh"

namespace tileon::sm90 {

// By `factor`; null: by one.
template <int kBlocks, int kCount>
__device__ __forceinline__ void multiply_all(float (&sums)[kBlocks][kCount], const float* factor) {
  if (factor == nullptr) return;
  const float value = *factor;
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& sum : block) sum *= value;
}

// bfloat16 operands hold their block scales: the sums lack the global scale alone.
template <typename Out_>
struct GlobalScale : Unscaled<Out_> {
  using Params = ScaledParams;

  // By the consumers' `warps`, while they wait for their first data.
  static __device__ __forceinline__ void summarize(const Params& params, int warp, int warps) {
    if (params.summary == nullptr || blockIdx.x != 0) return;
    uint32_t any = 0;
    for (int i = static_cast<int>(threadIdx.x); i < params.word_count; i += warps * 32) any |= params.words[i];
    any = __any_sync(0xffffffffu, any != 0);
    if (threadIdx.x % 32 == 0) params.summary[warp] = any;
  }

  template <typename Shared, int kBlocks, int kCount>
  __device__ __forceinline__ PlainResults<kBlocks, kCount> results(const Params& params, const Shared&, int,
                                                                   float (&sums)[kBlocks][kCount]) const {
    multiply_all(sums, params.global_scale);
    return {sums};
  }
};

// 2^(exponent - 127).
__device__ __forceinline__ float power(uint32_t exponent) { return __uint_as_float(exponent << 23); }

// What a thread has of some columns, scaled.
template <int kColumns>
struct ScaledColumns {
  float values[kColumns / 2];
  __device__ __forceinline__ const float& operator[](int i) const { return values[i]; }
};

// Sums of narrow operands, each scaled when it is stored, while the sums before it are on their way to memory.
template <Encoding kEncoding, typename Sum, int kBlocks, int kCount>
struct NarrowResults {
  const Sum (&sums)[kBlocks][kCount];
  const uint16_t*
      column_exponents;    // of this thread's first two columns; of its next two, eight columns on, four words on
  uint32_t row_exponents;  // two bytes a block
  const float* global_scale;

  __device__ __forceinline__ bool is_ordinary() const { return true; }
  __device__ __forceinline__ const NarrowResults& exactly() const { return *this; }

  template <int kColumns>
  using Columns = ScaledColumns<kColumns>;

  // An int32 may have more bits than float32, and is rounded here, once: the powers of two are exact.
  template <int kBlock, int kBegin, int kColumns>
  __device__ __forceinline__ Columns<kColumns> columns() const {
    constexpr float lacked = kEncoding == Encoding::kInt8 ? 0x1p-8f : 0x1p-26f;  // by both operands
    static_assert(kInt8LackedExponent == -4 && kFloat8LackedExponent == -13);
    const uint32_t both = row_exponents >> 16 * kBlock;
    const float rows[2] = {power(both & 0xff) * lacked, power(both >> 8 & 0xff) * lacked};
    Columns<kColumns> scaled;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const uint32_t pair = column_exponents[kBegin / 2 + j * 4];
      const float factors[2] = {power(pair & 0xff), power(pair >> 8)};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scaled.values[j * 4 + i] =
            static_cast<float>(sums[kBlock][kBegin / 2 + j * 4 + i]) * (rows[i / 2] * factors[i % 2]);
    }
    if (global_scale != nullptr) {
      const float factor = *global_scale;
#pragma unroll
      for (float& value : scaled.values) value *= factor;
    }
    return scaled;
  }
};

// Row `i` of a thread, which has two of each 64; `row` is the first of its warp's 16.
__device__ __forceinline__ int row_of_thread(int row, int i) {
  const int lane = threadIdx.x % 32;
  return row + lane / 4 + i / 2 * 64 + i % 2 * 8;
}

// The sums of narrow operands lack a power of two for each row and column, and a constant power of two. A thread has
// two rows of each 64 and two of every eight columns; the columns' exponents go through shared memory, and all
// exponents are read from global memory before the main loop.
template <Encoding kEncoding, TileConfig kTile, typename Out_>
class RowScale {
 public:
  using Out = Out_;
  using Params = ScaledParams;
  static constexpr int row_blocks = kTile.consumer_rows() / 64;
  static constexpr bool is_in_need_of_registers = true;

  static __device__ __forceinline__ void summarize(const Params&, int, int) {}

  // `row` is the first of the warp's 16, `column` of the tile's.
  __device__ __forceinline__ void read(const Params& params, int row, int column) {
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      const int this_row = row_of_thread(row, i);
      rows_[i] = this_row < params.problem.m ? params.exponents_a[this_row] : 0;
    }
#pragma unroll
    for (int i = 0; i < kColumnsOfThread; ++i) {
      const int this_column = column + static_cast<int>(threadIdx.x % 128) + 128 * i;
      columns_[i] = this_column < params.problem.n ? params.exponents_b[this_column] : 0;
    }
  }

  // Collective for the warpgroup: returns when all columns' exponents lie in shared memory.
  template <typename Shared>
  __device__ __forceinline__ void to_smem(const Shared& shared, int consumer) {
    packed_rows_ = 0;
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) packed_rows_ |= rows_[i] << 8 * i;
    uint8_t* columns = shared.column_exponents(consumer) + threadIdx.x % 128;
    ptx::barrier_sync(consumer_barrier(consumer), 128);  // the last tile's exponents have been read
#pragma unroll
    for (int i = 0; i < kColumnsOfThread; ++i) columns[128 * i] = static_cast<uint8_t>(columns_[i]);
    ptx::barrier_sync(consumer_barrier(consumer), 128);
  }

  template <typename Shared, typename Sum, int kCount>
  __device__ __forceinline__ NarrowResults<kEncoding, Sum, row_blocks, kCount> results(
      const Params& params, const Shared& shared, int consumer, const Sum (&sums)[row_blocks][kCount]) const {
    return {sums, reinterpret_cast<const uint16_t*>(shared.column_exponents(consumer)) + threadIdx.x % 4, packed_rows_,
            params.global_scale};
  }

 private:
  static constexpr int kRowsOfThread = 2 * row_blocks;
  static constexpr int kColumnsOfThread = (kTile.tile_n + 127) / 128;
  static_assert(kRowsOfThread <= 4, "a byte each");

  // Exponents as they come from memory, each in a register of its own: arithmetic on them would wait for the loads.
  uint32_t rows_[kRowsOfThread];
  uint32_t columns_[kColumnsOfThread];
  uint32_t packed_rows_;
};

}  // namespace tileon::sm90
