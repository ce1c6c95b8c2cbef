// From the sums of prepared operands to the product: what Unscaled (kernel_types.cuh) is for dense ones.
#pragma once

#include <cstdint>

#include "../../block_scaled/condition.cuh"
#include "../../ptx/named_barrier.cuh"
#include "../kernel_types.cuh"
#include "../named_barriers.cuh"
#include "config.h"
#include "params.h"

namespace tileon::sm90 {

// What the kernels of both kinds of prepared operands do about the words of the preparation (condition.cuh).
struct Conditional {
  using Params = ScaledParams;
  static constexpr bool is_conditional = true;

  // Whether the kernel runs at all; collective for the CTA.
  static __device__ __forceinline__ bool begins(const Params& params) {
    if (params.condition.words == nullptr) return true;
    const bool any = any_set(params.condition);
    if (params.summary != nullptr && blockIdx.x == 0 && threadIdx.x < kSummaryWords) params.summary[threadIdx.x] = any;
    return any == params.condition.when_set;
  }

  // In a kernel that runs in any case, while the consumers' `warps` wait for their first data.
  static __device__ __forceinline__ void summarize(const Params& params, int warp, int warps) {
    if (params.condition.words != nullptr || params.summary == nullptr || blockIdx.x != 0) return;
    uint32_t any = 0;
    for (int i = static_cast<int>(threadIdx.x); i < params.summarized.count; i += warps * 32)
      any |= params.summarized.words[i];
    any = __any_sync(0xffffffffu, any != 0);
    if (threadIdx.x % 32 == 0) params.summary[warp] = any;
  }
};

template <int kBlocks, int kCount>
__device__ __forceinline__ void multiply_by_global_scale(const ScaledParams& params, float (&sums)[kBlocks][kCount]) {
  if (params.global_scale == nullptr) return;
  const float factor = *params.global_scale;
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (float& sum : block) sum *= factor;
}

// bfloat16 operands hold their scales; the tensor's own is left.
template <typename Out_>
class GlobalScaling : public Conditional {
 public:
  using Out = Out_;
  static constexpr bool is_in_need_of_registers = false;

  __device__ __forceinline__ void read(const Params&, int, int) {}
  template <typename Shared>
  __device__ __forceinline__ void lay_out(const Shared&, int) const {}

  template <typename Shared, int kBlocks, int kCount, typename Store>
  __device__ __forceinline__ void store(const Params& params, const Shared&, int, float (&sums)[kBlocks][kCount],
                                        const Store& store) const {
    multiply_by_global_scale(params, sums);
    store(sums);
  }
};

// int8 operands have a power of two for each row. A thread has two rows of 64 and two of every eight columns; the
// columns' exponents go through shared memory, all of them read from global memory before the main loop.
template <typename Out_>
class RowScaling : public Conditional {
 public:
  using Out = Out_;
  static constexpr bool is_in_need_of_registers = true;

  // `row` is the first of the warp's 16, `column` of the tile's.
  __device__ __forceinline__ void read(const Params& params, int row, int column) {
    const int lane = threadIdx.x % 32;
    exponents_ = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int this_row = row + lane / 4 + 8 * i;
      const int this_column = column + static_cast<int>(threadIdx.x % 128) + 128 * i;
      if (this_row < params.problem.m) exponents_ |= params.exponents_a[this_row] << (8 * i);
      if (this_column < params.problem.n) exponents_ |= params.exponents_b[this_column] << (8 * i + 16);
    }
  }

  // Collective for the warpgroup: returns when all columns' exponents lie there.
  template <typename Shared>
  __device__ __forceinline__ void lay_out(const Shared& shared, int consumer) const {
    uint8_t* columns = shared.column_exponents(consumer) + threadIdx.x % 128;
    ptx::barrier_sync(consumer_barrier(consumer), 128);  // the last tile's have been read
    columns[0] = static_cast<uint8_t>(exponents_ >> 16);
    columns[128] = static_cast<uint8_t>(exponents_ >> 24);
    ptx::barrier_sync(consumer_barrier(consumer), 128);
  }

  // An int32 may have more bits than float32, and is rounded here, once: the powers of two are exact.
  template <typename Shared, int kCount, typename Store>
  __device__ __forceinline__ void store(const Params& params, const Shared& shared, int consumer,
                                        const int32_t (&sums)[1][kCount], const Store& store) const {
    const float rows[2] = {power(exponents_ & 0xff), power(exponents_ >> 8 & 0xff)};
    // volatile: read one after the other, not into as many registers as there are
    const volatile auto* pairs = reinterpret_cast<const uint16_t*>(shared.column_exponents(consumer)) + threadIdx.x % 4;
    float results[1][kCount];
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      const uint32_t pair = pairs[j * 4];
      const float columns[2] = {power(pair & 0xff), power(pair >> 8)};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        results[0][j * 4 + i] = static_cast<float>(sums[0][j * 4 + i]) * (rows[i / 2] * columns[i % 2]);
    }
    multiply_by_global_scale(params, results);
    store(results);
  }

 private:
  static __device__ __forceinline__ float power(uint32_t exponent) { return __uint_as_float(exponent << 23); }

  uint32_t exponents_;  // of two rows, then of two columns
};

}  // namespace tileon::sm90
