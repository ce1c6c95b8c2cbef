// From a slab of sums to global memory with as few registers as can be: a lane keeps to one column.
#pragma once

#include <cstdint>

#include "../../problem.h"
#include "store.cuh"

namespace tileon {

// Stores kRows x kColumns sums from `slab` ([kRows][kPitch] in shared memory, written by this warp and synchronized) to
// the output from (row, column) on: bias, activation, one rounding, any strides; and the argument of the activation
// where it is wanted.
template <int kRows, int kColumns, int kPitch, bool kKeepsPreActivation>
__device__ __forceinline__ void store_by_columns(const GemmProblem& problem, int64_t batch, int row, int column,
                                                 const float* slab) {
  constexpr int rows_at_once = 32 / kColumns;
  static_assert(32 % kColumns == 0 && kRows % rows_at_once == 0);
  const int lane = threadIdx.x % 32;
  column += lane % kColumns;
  if (column >= problem.n) return;
  const Epilogue& epilogue = problem.epilogue;
  const float bias = epilogue.bias == nullptr ? 0.0f : load_bias<float>(epilogue, column);
  const auto slope = static_cast<float>(epilogue.slope);
  int64_t at =
      batch * problem.out.stride_batch + column * problem.out.stride_n + (row + lane / kColumns) * problem.out.stride_m;
#pragma unroll 1
  for (int i = lane / kColumns; i < kRows && row + i < problem.m; i += rows_at_once) {
    const float sum = slab[i * kPitch + lane % kColumns] + bias;
    const float value = activate(sum, epilogue.activation, slope);
    store_as(problem.out.data, problem.out_dtype, at, value);
    if constexpr (kKeepsPreActivation) {
      if (problem.pre_activation != nullptr) store_as(problem.pre_activation, problem.out_dtype, at, sum);
    }
    at += rows_at_once * problem.out.stride_m;
  }
}

}  // namespace tileon
