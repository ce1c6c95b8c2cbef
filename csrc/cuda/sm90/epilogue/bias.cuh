// A tile's bias on its way to the epilogue: read before the main loop, which hides the latency, laid out at its end. In
// ping-pong it is laid out at once: the other consumer's main loop hides both.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/common/kernel_problem.h"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/named_barriers.cuh"

namespace tileon::sm90 {

// Threads of a warpgroup hold column i and i + 128 of the tile, as the bits that were loaded: converting them would
// wait for the load.
template <int kColumns>
class TileBias {
  static constexpr int kPerThread = (kColumns + 127) / 128;

 public:
  __device__ __forceinline__ void read(const KernelProblem& problem, int n_begin) {
    const Epilogue& epilogue = problem.epilogue;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = n_begin + static_cast<int>(threadIdx.x % 128) + i * 128;
      bits_[i] = 0;  // of 0.0, whatever the dtype
      if (epilogue.bias == nullptr || column >= problem.n) continue;
      const int64_t at = column * epilogue.bias_stride;
      bits_[i] = epilogue.bias_dtype == DType::kFloat32 ? static_cast<const uint32_t*>(epilogue.bias)[at]
                                                        : static_cast<const uint16_t*>(epilogue.bias)[at];
    }
  }

  // Collective for the warpgroup: returns when all columns lie in `shared`.
  __device__ __forceinline__ void lay_out(const Epilogue& epilogue, float* shared, int consumer) const {
    ptx::barrier_sync(consumer_barrier(consumer), 128);  // the last tile's has been read
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = static_cast<int>(threadIdx.x % 128) + i * 128;
      if (column < kColumns) shared[column] = as_float(bits_[i], epilogue.bias_dtype);
    }
    ptx::barrier_sync(consumer_barrier(consumer), 128);
  }

 private:
  static __device__ __forceinline__ float as_float(uint32_t bits, DType dtype) {
    if (dtype == DType::kFloat16) return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    return __uint_as_float(dtype == DType::kBFloat16 ? bits << 16 : bits);
  }

  uint32_t bits_[kPerThread];
};

}  // namespace tileon::sm90
