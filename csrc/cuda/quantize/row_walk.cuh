// How the kernels that quantize and dequantize go over a matrix: sixteen elements a lane, a row a warp.
//
// Sixteen elements are nvfp4's block and half of one of the mx formats, and 16 bytes or more on either side. A warp
// takes a row in spans of 512 elements; rows and columns go up to where the packed scales' padding ends.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "../error.h"

namespace tileon {

constexpr int kLaneElements = 16;
constexpr int kSpanElements = 32 * kLaneElements;
constexpr int kWalkWarps = 8;  // of a CTA
constexpr int kSpansPerCta = 4;

// Launches `kKernel` over `rows` rows of `elements` elements.
template <auto kKernel, typename Problem>
void launch_row_walk(const Problem& problem, int64_t rows, int64_t elements, cudaStream_t stream) {
  if (rows == 0 || elements == 0) return;
  constexpr int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;
  const int64_t along_k = (elements + kSpansPerCta * kSpanElements - 1) / (kSpansPerCta * kSpanElements);
  const dim3 grid(static_cast<unsigned>(std::min((rows + kWalkWarps - 1) / kWalkWarps, kMaxGridX)),
                  static_cast<unsigned>(std::min(along_k, kMaxGridY)));
  kKernel<<<grid, kWalkWarps * 32, 0, stream>>>(problem);
  check_cuda(cudaGetLastError(), "launching a kernel that quantizes");
}

// Calls visit(row, first element) for what this lane has of a grid of launch_row_walk: all lanes of a warp together, in
// one row.
template <typename Visit>
__device__ __forceinline__ void walk_rows(int64_t rows, int64_t elements, const Visit& visit) {
  const int64_t row_step = static_cast<int64_t>(gridDim.x) * kWalkWarps;
  const int64_t k_step = static_cast<int64_t>(gridDim.y) * kSpansPerCta * kSpanElements;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWalkWarps + threadIdx.x / 32; row < rows; row += row_step)
    for (int64_t begin = static_cast<int64_t>(blockIdx.y) * kSpansPerCta * kSpanElements; begin < elements;
         begin += k_step)
#pragma unroll
      for (int span = 0; span < kSpansPerCta; ++span) {
        const int64_t k = begin + span * kSpanElements + threadIdx.x % 32 * kLaneElements;
        if (k - threadIdx.x % 32 * kLaneElements < elements) visit(row, k);
      }
}

}  // namespace tileon
