// How the kernels that quantize and dequantize go over a matrix: eight elements a lane, a row a warp.
//
// With eight, a warp's loads and stores are whole sectors on either side: of 16 bytes a lane where elements have 16
// bits, of 4 or 8 where they are codes. (Sixteen elements a lane, stored as two halves, took more than twice the time.)
// Rows and columns go up to where the packed scales' padding ends.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "../error.h"

namespace tileon {

constexpr int kWalkWarps = 8;  // of a CTA

// Spans that a lane has under way at a time: 32 elements.
template <int kLaneElements>
constexpr int kSpans = 32 / kLaneElements;

// Launches `kKernel` over `rows` rows of `elements` elements.
template <auto kKernel, int kLaneElements, typename Problem>
void launch_row_walk(const Problem& problem, int64_t rows, int64_t elements, cudaStream_t stream) {
  if (rows == 0 || elements == 0) return;
  constexpr int kSpanElements = 32 * kLaneElements;  // of a warp at a time
  constexpr int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;
  const int64_t along_k =
      (elements + kSpans<kLaneElements> * kSpanElements - 1) / (kSpans<kLaneElements> * kSpanElements);
  const dim3 grid(static_cast<unsigned>(std::min((rows + kWalkWarps - 1) / kWalkWarps, kMaxGridX)),
                  static_cast<unsigned>(std::min(along_k, kMaxGridY)));
  kKernel<<<grid, kWalkWarps * 32, 0, stream>>>(problem);
  check_cuda(cudaGetLastError(), "launching a kernel that quantizes");
}

// What a lane has of a row at a time, for a grid of launch_row_walk: `load(row, k, span)` is called for
// kSpans<kLaneElements> spans before `use(row, k, span)` is for the first, so that their loads are under way together.
// All lanes of a warp make the same calls; `k` may lie beyond the row.
template <int kLaneElements, typename Load, typename Use>
__device__ __forceinline__ void walk_rows(int64_t rows, int64_t elements, const Load& load, const Use& use) {
  constexpr int kSpanElements = 32 * kLaneElements;
  const int64_t row_step = static_cast<int64_t>(gridDim.x) * kWalkWarps;
  const int64_t k_step = static_cast<int64_t>(gridDim.y) * kSpans<kLaneElements> * kSpanElements;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWalkWarps + threadIdx.x / 32; row < rows; row += row_step)
    for (int64_t begin = static_cast<int64_t>(blockIdx.y) * kSpans<kLaneElements> * kSpanElements; begin < elements;
         begin += k_step) {
      const int64_t k = begin + threadIdx.x % 32 * kLaneElements;
#pragma unroll
      for (int span = 0; span < kSpans<kLaneElements>; ++span) load(row, k + span * kSpanElements, span);
#pragma unroll
      for (int span = 0; span < kSpans<kLaneElements>; ++span)
        if (begin + span * kSpanElements < elements) use(row, k + span * kSpanElements, span);
    }
}

}  // namespace tileon
