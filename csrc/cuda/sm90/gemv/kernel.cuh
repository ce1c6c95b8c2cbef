// A single row of a times a k-major b: bound by reading b, so no tensor cores. A warp takes two columns of the output
// and keeps eight 16-byte loads a lane under way; a lies in shared memory.
#pragma once

#include <cstdint>

#include "../../output/store.cuh"
#include "../../ptx/grid_dependency.cuh"
#include "params.h"

namespace tileon::sm90 {

constexpr int kLoadsPerColumn = 4;  // under way in a lane
constexpr int kPerStep = 32 * kPerLoad;

template <typename Element>
union Pack {
  uint4 words;
  Element elements[kPerLoad];
  __device__ __forceinline__ Pack() {}
};

template <typename Element>
__device__ __forceinline__ float dot(const Pack<Element>& a, const Pack<Element>& b, float sum) {
#pragma unroll
  for (int i = 0; i < kPerLoad; ++i) sum = fmaf(widen(a.elements[i]), widen(b.elements[i]), sum);
  return sum;
}

// The row of a, with zeros up to a whole load.
template <typename Element>
__device__ __forceinline__ void stage_row(const Element* a, int k, Element* shared) {
  const int loads = k / kPerLoad;
  const auto* source = reinterpret_cast<const uint4*>(a);
  for (int i = threadIdx.x; i < loads; i += kGemvThreads) reinterpret_cast<uint4*>(shared)[i] = source[i];
  for (int i = loads * kPerLoad + threadIdx.x; i < (loads + 1) * kPerLoad; i += kGemvThreads)
    shared[i] = i < k ? a[i] : round_to<Element>(0.0f);
}

// This lane's part of the dot products of a with columns `column` and up. Columns past the last read it again.
template <typename Element>
__device__ __forceinline__ void multiply_columns(const Element* shared, const Operand& b, int64_t batch, int column,
                                                 int n, int k, float (&sums)[kColumnsPerWarp]) {
  const Element* columns[kColumnsPerWarp];
#pragma unroll
  for (int c = 0; c < kColumnsPerWarp; ++c)
    columns[c] = static_cast<const Element*>(b.data) + batch * b.stride_batch + min(column + c, n - 1) * b.stride_mn;
  const int lane = threadIdx.x % 32;
  const int whole = k / kPerLoad * kPerLoad;  // what comes in whole loads
  for (int begin = lane * kPerLoad; begin < whole; begin += kLoadsPerColumn * kPerStep) {
    Pack<Element> loaded[kColumnsPerWarp][kLoadsPerColumn];
#pragma unroll
    for (int load = 0; load < kLoadsPerColumn; ++load) {
      const int at = begin + load * kPerStep;
#pragma unroll
      for (int c = 0; c < kColumnsPerWarp; ++c)
        loaded[c][load].words =
            at < whole ? __ldcs(reinterpret_cast<const uint4*>(columns[c] + at)) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int load = 0; load < kLoadsPerColumn; ++load) {
      const int at = begin + load * kPerStep;
      Pack<Element> a;
      a.words = at < whole ? *reinterpret_cast<const uint4*>(shared + at) : uint4{0, 0, 0, 0};
#pragma unroll
      for (int c = 0; c < kColumnsPerWarp; ++c) sums[c] = dot(a, loaded[c][load], sums[c]);
    }
  }
  if (whole + lane < k)
#pragma unroll
    for (int c = 0; c < kColumnsPerWarp; ++c)
      sums[c] = fmaf(widen(shared[whole + lane]), widen(columns[c][whole + lane]), sums[c]);
}

__device__ __forceinline__ void store_scalar(const GemmProblem& problem, int64_t batch, int64_t column, float sum) {
  const Epilogue& epilogue = problem.epilogue;
  if (epilogue.bias != nullptr) sum += load_bias<float>(epilogue, column);
  const float value = activate(sum, epilogue.activation, static_cast<float>(epilogue.slope));
  store_as(problem.out.data, problem.out_dtype, batch * problem.out.stride_batch + column * problem.out.stride_n,
           value);
}

// Grid: (CTAs for a matrix, batch).
template <typename Element>
__global__ void __launch_bounds__(kGemvThreads) gemv(const __grid_constant__ GemvParams params) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  Element* shared = reinterpret_cast<Element*>(dynamic_shared);
  const GemmProblem& problem = params.problem;
  const int n = static_cast<int>(problem.n), k = static_cast<int>(problem.k);
  const int64_t batch = params.first_batch + blockIdx.y;
  ptx::grid_dependency_launch();
  ptx::grid_dependency_wait();
  stage_row(static_cast<const Element*>(problem.a.data) + batch * problem.a.stride_batch, k, shared);
  __syncthreads();

  const int column = (blockIdx.x * (kGemvThreads / 32) + threadIdx.x / 32) * kColumnsPerWarp;
  float sums[kColumnsPerWarp] = {};
  if (column < n && k > 0) multiply_columns(shared, problem.b, batch, column, n, k, sums);
#pragma unroll
  for (int c = 0; c < kColumnsPerWarp; ++c) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sums[c] += __shfl_xor_sync(~0u, sums[c], distance);
    if (threadIdx.x % 32 == c && column + c < n) store_scalar(problem, batch, column + c, sums[c]);
  }
}

}  // namespace tileon::sm90
