// From a slab of sums to global memory with few registers: a lane keeps to one column, or to two neighbouring ones.
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/common/kernel_choice.h"

namespace tileon {

// Stores neighbouring columns, the first `columns` of them; `at` counts elements. `vectors`: all at once.
template <int kCount>
__device__ __forceinline__ void store_columns(void* data, const KernelProblem& problem, int64_t at,
                                              const float (&values)[kCount], bool vectors, int columns) {
  if constexpr (kCount == 2) {
    if (vectors && problem.out_dtype == DType::kFloat16) {
      *reinterpret_cast<uint32_t*>(static_cast<__half*>(data) + at) = round_pair<__half>(values[0], values[1]);
      return;
    }
    if (vectors && problem.out_dtype == DType::kBFloat16) {
      *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(data) + at) =
          round_pair<__nv_bfloat16>(values[0], values[1]);
      return;
    }
    if (vectors && problem.out_dtype == DType::kFloat32) {
      *reinterpret_cast<float2*>(static_cast<float*>(data) + at) = {values[0], values[1]};
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (i < columns) store_as(data, problem.out_dtype, at + i * problem.out.stride_n, values[i]);
}

// Stores kRows x kColumns sums from `slab` ([kRows][kPitch] in shared memory, written by this warp and synchronized) to
// the output from (row, column) on: bias, activation, one rounding, any strides. kCount: columns of a lane. `vectors`:
// neighbouring columns can be stored at once. kKeepsPreActivation: the argument of the activation too, where it is
// wanted.
template <int kRows, int kColumns, int kPitch, int kCount, bool kKeepsPreActivation>
__device__ __forceinline__ void store_by_columns(const KernelProblem& problem, bool vectors, int64_t batch, int row,
                                                 int column, const float* slab) {
  constexpr int lanes_per_row = kColumns / kCount;
  constexpr int rows_at_once = 32 / lanes_per_row;
  static_assert(32 % lanes_per_row == 0 && kRows % rows_at_once == 0);
  const int lane_row = threadIdx.x % 32 / lanes_per_row, lane_column = threadIdx.x % lanes_per_row * kCount;
  column += lane_column;
  if (column >= problem.n) return;
  const int columns = min(problem.n - column, static_cast<int64_t>(kCount));
  vectors = vectors && columns == kCount;
  const Epilogue& epilogue = problem.epilogue;
  float bias[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    bias[i] = epilogue.bias == nullptr || i >= columns ? 0.0f : load_bias<float>(epilogue, column + i);
  int64_t at =
      batch * problem.out.stride_batch + column * problem.out.stride_n + (row + lane_row) * problem.out.stride_m;
#pragma unroll 1
  for (int i = lane_row; i < kRows && row + i < problem.m; i += rows_at_once) {
    float values[kCount];
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = slab[i * kPitch + lane_column + j] + bias[j];
    if constexpr (kKeepsPreActivation) {
      if (problem.pre_activation != nullptr)
        store_columns(problem.pre_activation, problem, at, values, vectors, columns);
    }
    activate_all(values, epilogue);
    store_columns(problem.out.data, problem, at, values, vectors, columns);
    at += rows_at_once * problem.out.stride_m;
  }
}

}  // namespace tileon
