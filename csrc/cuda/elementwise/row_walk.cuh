// How the kernels that quantize and dequantize go over a matrix: a segment of a row a warp, in spans that give each
// lane as many neighbouring elements as make whole sectors of its loads and stores.
//
// These kernels are bound by their instructions as much as by memory: what depends on the row or the segment is found
// once a segment, and within it offsets are constants. Rows that are not vectors have kernels of their own.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "cuda/runtime/runtime.h"

namespace tileon {

constexpr int kWalkWarps = 8;  // of a CTA

// How a kernel goes over rows: segments of `kCount_` spans of `kLaneElements_` a lane. `kResident` CTAs that one SM
// shall hold bound the registers of the kernels for vectors.
template <int kLaneElements_, int kCount_, int kResident_>
struct RowWalk {
  static constexpr int kLaneElements = kLaneElements_;
  static constexpr int kCount = kCount_;
  static constexpr int kResident = kResident_;
  static constexpr int kThreads = kWalkWarps * 32;
  static constexpr int kSpanElements = 32 * kLaneElements;
  static constexpr int kSegmentElements = kCount * kSpanElements;

  // This lane's first element in a segment.
  static __device__ __forceinline__ int lane_begin() { return threadIdx.x % 32 * kLaneElements; }

  // How many of a segment's elements lie before `end`; 0 or less where none does.
  static __device__ __forceinline__ int inside(int64_t begin, int64_t end) {
    return static_cast<int>(end - begin < kSegmentElements ? end - begin : kSegmentElements);
  }

  // Calls `use(row, begin)` for each segment of this warp, for a grid of launch_row_walk.
  template <typename Use>
  static __device__ __forceinline__ void walk(int64_t rows, const Use& use) {
    const int64_t begin = static_cast<int64_t>(blockIdx.x) * kSegmentElements;
    for (int64_t row = static_cast<int64_t>(blockIdx.y) * kWalkWarps + threadIdx.x / 32; row < rows;
         row += static_cast<int64_t>(gridDim.y) * kWalkWarps)
      use(row, begin);
  }
};

// Whether rows are vectors of `bytes` bytes from end to end, all aligned.
inline bool has_vectors(const void* data, int64_t stride_row_bytes, int64_t stride_k, int64_t bytes) {
  return stride_k == 1 && (static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)) | stride_row_bytes) % bytes == 0;
}

// Launches `kKernel` over `rows` rows of `elements` elements.
template <typename Walk, auto kKernel, typename Problem>
void launch_row_walk(const Problem& problem, int64_t rows, int64_t elements, cudaStream_t stream) {
  if (rows == 0 || elements == 0) return;
  constexpr int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;
  const int64_t segments = (elements + Walk::kSegmentElements - 1) / Walk::kSegmentElements;
  if (segments > kMaxGridX) throw std::runtime_error("tileon: rows of more than 2^41 elements");
  const dim3 grid(static_cast<unsigned>(segments),
                  static_cast<unsigned>(std::min((rows + kWalkWarps - 1) / kWalkWarps, kMaxGridY)));
  LaunchConfig launch{.grid = grid, .threads = Walk::kThreads, .stream = stream};
  if constexpr (requires { problem.may_overlap; }) launch.may_overlap = problem.may_overlap;
  launch_kernel("launching a kernel that quantizes", launch, kKernel, problem);
}

// A CTA for each of so many parts of a matrix.
inline LaunchConfig one_cta_for_each(int64_t count, bool may_overlap, cudaStream_t stream) {
  constexpr int64_t kMaxGridX = 0x7fffffff;
  if (count > kMaxGridX) throw std::runtime_error("tileon: more than 2^31 blocks to quantize");
  return {.grid = dim3(static_cast<unsigned>(count)),
          .threads = kWalkWarps * 32,
          .stream = stream,
          .may_overlap = may_overlap};
}

}  // namespace tileon
