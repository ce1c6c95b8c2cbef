// A tile's bias on its way to the epilogue: read before the main loop, which hides the latency, laid out after it.
#pragma once

#include "../../output/store.cuh"
#include "../../ptx/named_barrier.cuh"
#include "../config.h"
#include "../named_barriers.cuh"

namespace tileon::sm90 {

// Threads of a warpgroup hold column i and i + 128 of the tile.
template <int kColumns>
class TileBias {
  static constexpr int kPerThread = (kColumns + 127) / 128;

 public:
  __device__ __forceinline__ void read(const GemmProblem& problem, int n_begin) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = n_begin + static_cast<int>(threadIdx.x % 128) + i * 128;
      values_[i] =
          problem.epilogue.bias != nullptr && column < problem.n ? load_bias<float>(problem.epilogue, column) : 0.0f;
    }
  }

  // Collective for the warpgroup: returns when all columns lie in `shared`.
  __device__ __forceinline__ void lay_out(float* shared, int consumer) const {
    ptx::barrier_sync(consumer_barrier(consumer), 128);  // the last tile's has been read
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = static_cast<int>(threadIdx.x % 128) + i * 128;
      if (column < kColumns) shared[column] = values_[i];
    }
    ptx::barrier_sync(consumer_barrier(consumer), 128);
  }

 private:
  float values_[kPerThread];
};

}  // namespace tileon::sm90
