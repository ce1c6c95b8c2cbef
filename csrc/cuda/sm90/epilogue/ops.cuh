// What becomes of a tile's sums on the way out: bias, the cheap activations, rounding to 16 bits; and the sums' place
// in the output.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// Where a warp's part of a tile goes.
struct StorePlace {
  int row;  // the first of the output's rows and columns that it has
  int column;
  int batch;
};

// ---- bias: read before the main loop, which hides the latency, and put into shared memory at its end; in ping-pong at
// once, for the other consumer's main loop hides both ----

// Threads of a warpgroup hold column i and i + 128 of the tile, as the bits that were loaded: converting them would
// wait for the load.
template <int kColumns>
class TileBias {
  static constexpr int kPerThread = (kColumns + 127) / 128;

 public:
  __device__ __forceinline__ void read(const KernelProblem& problem, int n_begin) {
    const Epilogue& epilogue = problem.epilogue;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = n_begin + static_cast<int>(threadIdx.x % 128) + i * 128;
      bits_[i] = 0;  // of 0.0, whatever the dtype
      if (epilogue.bias == nullptr || column >= problem.n) continue;
      const int64_t at = column * epilogue.bias_stride;
      bits_[i] = epilogue.bias_dtype == DType::kFloat32 ? static_cast<const uint32_t*>(epilogue.bias)[at]
                                                        : static_cast<const uint16_t*>(epilogue.bias)[at];
    }
  }

  // Collective for the warpgroup: returns when all columns lie in `shared`.
  __device__ __forceinline__ void to_smem(const Epilogue& epilogue, float* shared, int consumer) const {
    ptx::barrier_sync(consumer_barrier(consumer), 128);  // the last tile's bias has been read
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = static_cast<int>(threadIdx.x % 128) + i * 128;
      if (column < kColumns) shared[column] = as_float(bits_[i], epilogue.bias_dtype);
    }
    ptx::barrier_sync(consumer_barrier(consumer), 128);
  }

 private:
  static __device__ __forceinline__ float as_float(uint32_t bits, DType dtype) {
    if (dtype == DType::kFloat16) return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    return __uint_as_float(dtype == DType::kBFloat16 ? bits << 16 : bits);
  }

  uint32_t bits_[kPerThread];
};

// ---- the formulas ----

// What becomes of a sum, the bias added where there is one: the formulas of epilogue.h.
struct Identity {
  static constexpr bool biased = false;
  __device__ __forceinline__ float finish(float sum) const { return sum; }
};
// For slopes above 0 and up to 1 in float32 (epilogue.h is_cheap): leaky_relu is then the larger one of x and slope x,
// and slope 1 is the bias alone. Slope 0 would make NaN of -inf.
struct BiasAndLeakyRelu {
  static constexpr bool biased = true;
  float slope;
  __device__ __forceinline__ float finish(float sum) const { return fmaxf(sum, slope * sum); }
};
struct BiasAndRelu {
  static constexpr bool biased = true;
  __device__ __forceinline__ float finish(float sum) const { return ptx::max_nan(sum, 0.0f); }
};

// Two finished sums, rounded to 16 bits. relu is part of the conversion (ptx/convert.cuh): rounding keeps the order,
// and 0.
template <typename Element, typename Formula>
__device__ __forceinline__ uint32_t finish_pair(const Formula& formula, float first, float second) {
  if constexpr (!std::is_same_v<Formula, BiasAndRelu>) {
    return round_pair<Element>(formula.finish(first), formula.finish(second));
  } else if constexpr (std::is_same_v<Element, __half>) {
    return ptx::convert_relu_float16(first, second);
  } else {
    return ptx::convert_relu_bfloat16(first, second);
  }
}

// Calls `store` with the formula of the params' epilogue_op: the ways to finish are copies of the code. Decided where a
// sum is finished, they would keep the compiler from moving one chunk's arithmetic under the other's store.
template <typename Store>
__device__ __forceinline__ void with_formula(const KernelParams& params, const Store& store) {
  // ptxas lays out the last case first, right behind the main loop, where instructions are prefetched. The longest one
  // stands there: elsewhere it waits for its instructions once other kernels have run in between.
  switch (params.epilogue_op) {
    case EpilogueOp::kNothing:
      return store(Identity{});
    case EpilogueOp::kBiasAndRelu:
      return store(BiasAndRelu{});
    case EpilogueOp::kActivation:
      __builtin_unreachable();  // of ActivatedStore alone (epilogue/tma_store.cuh)
    case EpilogueOp::kBiasAndLeakyRelu:
      return store(BiasAndLeakyRelu{params.slope});
  }
}

// A lane's share of the bias of kColumns of a warp's sums: the same two of every eight columns; swapped, wgmma's rows
// are columns of the output, and a lane has two of them.
template <typename Kernel, int kColumns>
struct ChunkBias {
  float2 pairs[Kernel::swapped ? 1 : kColumns / 8];

  // `bias`, in shared memory, is for the first of the columns.
  __device__ __forceinline__ void read(const float* bias) {
    const int lane = threadIdx.x % 32;
    if constexpr (Kernel::swapped) {
      pairs[0] = {bias[lane / 4], bias[lane / 4 + 8]};
    } else {
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) pairs[j] = *reinterpret_cast<const float2*>(bias + j * 8 + lane % 4 * 2);
    }
  }

  // Of this lane's sum `i`: of every eight columns it has two, in each of two rows.
  __device__ __forceinline__ float of(int i) const {
    if (Kernel::swapped) return i / 2 % 2 == 0 ? pairs[0].x : pairs[0].y;
    return i % 2 == 0 ? pairs[i / 4].x : pairs[i / 4].y;
  }
};

// kColumns of a warp's sums, finished and rounded: two columns a word, in the order in which stmatrix takes them.
// `fragments` are the sums from the first of these columns on.
template <typename Kernel, int kColumns, typename EpilogueOfSum>
__device__ __forceinline__ void round_chunk(const float* fragments, const ChunkBias<Kernel, kColumns>& bias,
                                            const EpilogueOfSum& epilogue, uint32_t (&words)[kColumns / 4]) {
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = j * 4 + half * 2;
      float first = fragments[i], second = fragments[i + 1];
      if constexpr (EpilogueOfSum::biased) {
        first += bias.of(i);
        second += bias.of(i + 1);
      }
      words[j * 2 + half] = finish_pair<typename Kernel::Out>(epilogue, first, second);
    }
  }
}

}  // namespace tileon::sm90
