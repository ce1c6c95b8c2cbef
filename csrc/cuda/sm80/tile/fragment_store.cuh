// From the accumulator fragments of mma.m16n8 (float or double) to the output.
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/sm80/heuristics/dense.h"
#include "cuda/sm80/tile/kernel_params.h"

namespace tileon::sm80 {

// What one warp writes at a time: the 16 rows of a fragment, as wide as the warp's tile.
template <typename Accumulator_, TileConfig kConfig>
struct FragmentSlab {
  using Accumulator = Accumulator_;
  static constexpr int columns = kConfig.warp_n();
  static constexpr int rows = slab_rows(kConfig.family);
  static constexpr int pitch = columns + slab_padding(kConfig.family);
  static constexpr int bytes = rows * pitch * int(sizeof(Accumulator));
  static_assert(rows == 16);
};

// Takes one warp's sums through its slab in `shared_memory` (each warp has one of its own) to the output. Lane l holds
// columns 2 (l % 4) and 2 (l % 4) + 1 of each n8, in row l / 4 first, then in row l / 4 + 8.
template <typename Slab, typename Problem, int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void store_fragments(const TileParams<Problem>& params, int64_t batch, int64_t row_begin,
                                                int64_t column_begin, unsigned char* shared_memory,
                                                const typename Slab::Accumulator (&sums)[kFragmentsM][kFragmentsN][4]) {
  using Accumulator = typename Slab::Accumulator;
  struct alignas(2 * sizeof(Accumulator)) Pair {
    Accumulator first, second;
  };
  const int lane = threadIdx.x % 32;
  auto* slab = reinterpret_cast<Accumulator*>(shared_memory + threadIdx.x / 32 * Slab::bytes);
  Accumulator* lane_slab = slab + lane / 4 * Slab::pitch + lane % 4 * 2;
  const WarpStore<Accumulator, Slab::columns, Problem> warp_store(params.problem, params.vector_stores, batch,
                                                                  column_begin, lane);
#pragma unroll 1
  for (int m = 0; m < kFragmentsM; ++m) {
#pragma unroll
    for (int this_m = 0; this_m < kFragmentsM; ++this_m) {
      if (this_m != m) continue;  // registers take constant indices only; the branch is the same in all lanes
#pragma unroll
      for (int n = 0; n < kFragmentsN; ++n) {
        const auto& fragment = sums[this_m][n];
        *reinterpret_cast<Pair*>(lane_slab + n * 8) = {fragment[0], fragment[1]};
        *reinterpret_cast<Pair*>(lane_slab + 8 * Slab::pitch + n * 8) = {fragment[2], fragment[3]};
      }
    }
    __syncwarp();
    warp_store.template store<Slab::rows, Slab::pitch>(slab, row_begin + m * Slab::rows, 1);
    __syncwarp();
  }
}

}  // namespace tileon::sm80
