// Of mxfp4 by way of e5m2: whether scales of b that are no factors (float8.cuh) stand over codes with which they are
// not.
#pragma once

#include <cstdint>

#include "cuda/sm90/small_m/float8.cuh"
#include "cuda/sm90/small_m/losses.cuh"
#include "cuda/sm90/small_m/params.h"
#include "cuda/sm90/small_m/traits.cuh"

namespace tileon::sm90 {

// Zeros may have any small scale: their product is zero. A large one, or NaN, is left to bfloat16 in any case.
__device__ __forceinline__ bool is_beyond_factor(const uint4& codes, uint32_t scale) {
  return scale > kLastFactor || (scale < kFirstFactor && ((codes.x | codes.y | codes.z | codes.w) & 0x77777777) != 0);
}

// Looks at the suspects among b's rows in the CTA's part of k, which is `blocks` stages of the pipeline from
// `first_block` on, and notes what is certain. By all of the CTA's threads, a warp a row. A function of its own, so
// that ptxas allots the registers of the loops that count without it.
template <typename Kernel>
__device__ __noinline__ void find_extreme_factors(const SmallMParams& params, Losses losses, int n_begin,
                                                  int first_block, int blocks) {
  constexpr int per_stage = Kernel::format.scale_blocks() * kScaleBlockCols;
  const ScaledKernelOperand& b = params.problem.b;
  const auto* scales = static_cast<const uint8_t*>(b.scale);
  const int begin = first_block * per_stage;
  const int end = min(begin + blocks * per_stage, static_cast<int>(params.problem.k / Kernel::format.vec()));
  const int rows = static_cast<int>(min(int64_t{kSmallMTileN}, params.problem.n - n_begin));
  bool any = false;
#pragma unroll 1
  for (int row = threadIdx.x / 32; row < rows; row += Kernel::threads / 32) {
    if (!losses.is_suspect(Losses::kRowsOfB + row)) continue;
    const auto* codes = static_cast<const unsigned char*>(b.data) + (n_begin + row) * b.stride_row;
#pragma unroll 4
    for (int block = begin + static_cast<int>(threadIdx.x % 32); block < end; block += 32)
      any |= is_beyond_factor(reinterpret_cast<const uint4*>(codes)[block],
                              scales[b.scale_strides.offset(n_begin + row, block)]);
  }
  if (any) losses.note(Losses::kCertain);
}

}  // namespace tileon::sm90
