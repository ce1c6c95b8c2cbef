// Bias, activation and rounding of the sums that TMA stores.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/ptx/convert.cuh"

namespace tileon::sm90 {

// What becomes of two sums, the bias added where there is one: the formulas of epilogue.h, rounded to the output, or of
// one sum where that is float32.
struct Identity {
  static constexpr bool biased = false;
  __device__ __forceinline__ float finish(float sum) const { return sum; }
  template <typename Element>
  __device__ __forceinline__ uint32_t round(float first, float second) const {
    return round_pair<Element>(first, second);
  }
};
// For slopes that float32 holds above 0 and up to 1 (epilogue.h is_cheap), of which 1 is the bias alone: the larger one
// of x and slope x is then leaky_relu's. With slope 0 it would not be: there -inf becomes NaN.
struct BiasAndLeakyRelu {
  static constexpr bool biased = true;
  float slope;
  __device__ __forceinline__ float finish(float sum) const { return fmaxf(sum, slope * sum); }
  template <typename Element>
  __device__ __forceinline__ uint32_t round(float first, float second) const {
    return round_pair<Element>(fmaxf(first, slope * first), fmaxf(second, slope * second));
  }
};
// The conversion does it: rounding keeps the order, and 0.
struct BiasAndRelu {
  static constexpr bool biased = true;
  __device__ __forceinline__ float finish(float sum) const { return ptx::max_nan(sum, 0.0f); }
  template <typename Element>
  __device__ __forceinline__ uint32_t round(float first, float second) const {
    if constexpr (std::is_same_v<Element, __half>) return ptx::convert_relu_float16(first, second);
    return ptx::convert_relu_bfloat16(first, second);
  }
};

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
      words[j * 2 + half] = epilogue.template round<typename Kernel::Out>(first, second);
    }
  }
}

}  // namespace tileon::sm90
