// Bias, activation and rounding of the sums that TMA stores.
#pragma once

#include <cstdint>

#include "../../../epilogue.h"
#include "../../output/convert.cuh"

namespace tileon::sm90 {

// What happens to a sum before it is rounded; the formulas of epilogue.h.
struct Unchanged {
  static constexpr bool biased = false;
  __device__ __forceinline__ float operator()(float x) const { return x; }
};
// For slopes above 0 and up to 1, of which 1 is the bias alone: the larger one of x and slope x is then leaky_relu's.
struct BiasAndLeakyRelu {
  static constexpr bool biased = true;
  float slope;
  __device__ __forceinline__ float operator()(float x) const { return fmaxf(x, slope * x); }
};
struct BiasAndRelu {
  static constexpr bool biased = true;
  __device__ __forceinline__ float operator()(float x) const { return activate(x, Activation::kRelu, 0.0f); }
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
};

// kColumns of a warp's sums, finished and rounded: two columns a word, in the order in which stmatrix takes them.
// `fragments` are the sums from the first of these columns on.
template <typename Kernel, int kColumns, typename FinishSum>
__device__ __forceinline__ void round_chunk(const float* fragments, const ChunkBias<Kernel, kColumns>& bias,
                                            const FinishSum& finish, uint32_t (&words)[kColumns / 4]) {
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float first = fragments[j * 4 + half * 2], second = fragments[j * 4 + half * 2 + 1];
      if constexpr (FinishSum::biased) {
        first += !Kernel::swapped ? bias.pairs[j].x : half == 0 ? bias.pairs[0].x : bias.pairs[0].y;
        second += !Kernel::swapped ? bias.pairs[j].y : half == 0 ? bias.pairs[0].x : bias.pairs[0].y;
      }
      words[j * 2 + half] = round_pair<typename Kernel::Element>(finish(first), finish(second));
    }
  }
}

}  // namespace tileon::sm90
