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

// kColumns of a warp's sums, finished and rounded: two columns a word, in the order in which stmatrix takes them.
// `fragments` are the sums from the first of these columns on; `bias`, in shared memory, is for the same place of the
// output, and is read where the epilogue is biased.
template <typename Kernel, int kColumns, typename FinishSum>
__device__ __forceinline__ void round_chunk(const float* fragments, const float* bias, const FinishSum& finish,
                                            uint32_t (&words)[kColumns / 4]) {
  const int lane = threadIdx.x % 32;
  float row_bias[2] = {0.0f, 0.0f};  // swapped, wgmma's rows are columns of the output
  if constexpr (FinishSum::biased && Kernel::swapped) {
    row_bias[0] = bias[lane / 4];
    row_bias[1] = bias[lane / 4 + 8];
  }
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    float2 pair = {0.0f, 0.0f};  // a lane has the same two of every eight columns, in two rows
    if constexpr (FinishSum::biased && !Kernel::swapped)
      pair = *reinterpret_cast<const float2*>(bias + j * 8 + lane % 4 * 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float first = fragments[j * 4 + half * 2], second = fragments[j * 4 + half * 2 + 1];
      if constexpr (FinishSum::biased) {
        first += Kernel::swapped ? row_bias[half] : pair.x;
        second += Kernel::swapped ? row_bias[half] : pair.y;
      }
      words[j * 2 + half] = round_pair<typename Kernel::Element>(finish(first), finish(second));
    }
  }
}

}  // namespace tileon::sm90
