// GEMM of small products, of every dtype, alignment and strides. A product that is done in a few microseconds waits for
// one thing after the other, so a warp does as little as it can: it loads its elements of a and b from global memory
// straight into the registers that multiply them, all of a block of k at once and the bias with them, and stores its
// sums from registers. No operand passes through shared memory, and the warps of a CTA wait for nothing. Where k is
// longer, several warps share it: their sums meet in shared memory.
//
// An element is loaded once for each warp that needs it, so larger products belong to other kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/direct_reader.cuh"
#include "cuda/sm80/loaders/operand_tile.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// ---- how a warp multiplies a step of k: what a lane holds of a's rows and of b's fragments (direct_reader.cuh); the
// sums of two eights of rows and a fragment of eight columns are mma.m16n8's four, whatever multiplies them ----

// 16 bits; of fp8, which becomes float16, all pairs of dtypes.
template <typename Stored_>
struct MmaProducts {
  using Stored = Stored_;
  using Accumulator = float;
  static constexpr int per_lane = 4;  // elements of a row or column in a step of k, which is four lanes' elements

  // How an operand is held.
  struct Operand {
    bool by_quarters;
    bool e4m3;  // else e5m2, of fp8

    // Two words of two neighbours each.
    __device__ __forceinline__ void words(const uint32_t (&held)[per_lane], uint32_t (&words)[2]) const {
      if constexpr (sizeof(Stored) == 1) {
        if (by_quarters) return float16_pairs(held[0], e4m3, words);
        words[0] = float16_pair(held[0], held[1], e4m3);
        words[1] = float16_pair(held[2], held[3], e4m3);
      } else {
        words[0] = by_quarters ? held[0] : ptx::prmt(held[0], held[1], 0x5410);
        words[1] = by_quarters ? held[1] : ptx::prmt(held[2], held[3], 0x5410);
      }
    }
  };
  Operand of_a, of_b;

  template <int kEightsM, int kEightsN>
  __device__ __forceinline__ void multiply(const uint32_t (&a)[kEightsM][per_lane],
                                           const uint32_t (&b)[kEightsN][per_lane],
                                           float (&sums)[kEightsM / 2][kEightsN][4]) const {
    using Element = ElementInTile<Stored>;
    uint32_t words_b[kEightsN][2];
#pragma unroll
    for (int n = 0; n < kEightsN; ++n) of_b.words(b[n], words_b[n]);
#pragma unroll
    for (int m = 0; m < kEightsM / 2; ++m) {
      uint32_t first[2], second[2];
      of_a.words(a[2 * m], first);
      of_a.words(a[2 * m + 1], second);
      const uint32_t words_a[4] = {first[0], second[0], first[1], second[1]};
#pragma unroll
      for (int n = 0; n < kEightsN; ++n)
        ptx::mma_m16n8<Element, Element>(sums[m][n], words_a, words_b[n][0], words_b[n][1]);
    }
  }
};

struct Tf32Products {
  using Stored = float;
  using Accumulator = float;
  static constexpr int per_lane = 2;

  template <int kEightsM, int kEightsN>
  __device__ __forceinline__ void multiply(const uint32_t (&a)[kEightsM][per_lane],
                                           const uint32_t (&b)[kEightsN][per_lane],
                                           float (&sums)[kEightsM / 2][kEightsN][4]) const {
    using ptx::float_to_tf32;
    uint32_t words_b[kEightsN][2];
#pragma unroll
    for (int n = 0; n < kEightsN; ++n) words_b[n][0] = float_to_tf32(b[n][0]), words_b[n][1] = float_to_tf32(b[n][1]);
#pragma unroll
    for (int m = 0; m < kEightsM / 2; ++m) {
      const uint32_t words_a[4] = {float_to_tf32(a[2 * m][0]), float_to_tf32(a[2 * m + 1][0]),
                                   float_to_tf32(a[2 * m][1]), float_to_tf32(a[2 * m + 1][1])};
#pragma unroll
      for (int n = 0; n < kEightsN; ++n)
        ptx::mma_m16n8<float, float>(sums[m][n], words_a, words_b[n][0], words_b[n][1]);
    }
  }
};

struct DmmaProducts {
  using Stored = double;
  using Accumulator = double;
  static constexpr int per_lane = 1;

  template <int kEightsM, int kEightsN>
  __device__ __forceinline__ void multiply(const double (&a)[kEightsM][per_lane], const double (&b)[kEightsN][per_lane],
                                           double (&sums)[kEightsM / 2][kEightsN][4]) const {
#pragma unroll
    for (int m = 0; m < kEightsM / 2; ++m) {
      const double rows[2] = {a[2 * m][0], a[2 * m + 1][0]};
#pragma unroll
      for (int n = 0; n < kEightsN; ++n) ptx::mma_m16n8k4(sums[m][n], rows, b[n][0]);
    }
  }
};

// IEEE float32, on the ordinary arithmetic units: for each k of a step the lanes that hold its elements hand them to
// those that sum.
struct FfmaProducts {
  using Stored = float;
  using Accumulator = float;
  static constexpr int per_lane = 1;

  template <int kEightsM, int kEightsN>
  __device__ __forceinline__ void multiply(const uint32_t (&a)[kEightsM][per_lane],
                                           const uint32_t (&b)[kEightsN][per_lane],
                                           float (&sums)[kEightsM / 2][kEightsN][4]) const {
    const int lane = threadIdx.x % 32, row_lane = lane / 4 * 4, column_lane = lane % 4 * 8;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float rows[kEightsM], columns[kEightsN][2];
#pragma unroll
      for (int m = 0; m < kEightsM; ++m) rows[m] = __uint_as_float(__shfl_sync(0xffffffff, a[m][0], row_lane + k));
#pragma unroll
      for (int n = 0; n < kEightsN; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          columns[n][i] = __uint_as_float(__shfl_sync(0xffffffff, b[n][0], column_lane + i * 4 + k));
#pragma unroll
      for (int m = 0; m < kEightsM; ++m)
#pragma unroll
        for (int n = 0; n < kEightsN; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& sum = sums[m / 2][n][m % 2 * 2 + i];
            sum = fma(rows[m], columns[n][i], sum);
          }
    }
  }
};

// ---- the kernel ----

// The types and sizes of one kernel. The tile's n is split over warps_n warps, and k over warps_m.
template <TileConfig kConfig, typename Products_>
struct DirectKernel {
  using Products = Products_;
  using Accumulator = typename Products::Accumulator;
  static constexpr TileConfig config = kConfig;
  static constexpr int threads = kConfig.threads();
  static constexpr int k_shares = kConfig.warps_m;
  static constexpr int warp_n = kConfig.tile_n / kConfig.warps_n;
  static constexpr int eights_m = kConfig.tile_m / 8;
  static constexpr int eights_n = warp_n / 8;
  static constexpr int steps = kConfig.block_k / (4 * Products::per_lane);
  static_assert(eights_m % 2 == 0 && eights_n % 2 == 0 && (k_shares == 1 || kConfig.warps_n == 1));
  using ReaderA = DirectReader<typename Products::Stored, Side::kA, eights_m, Products::per_lane, steps>;
  using ReaderB = DirectReader<typename Products::Stored, Side::kB, eights_n, Products::per_lane, steps>;
  using Sums = Accumulator[eights_m / 2][eights_n][4];
  static constexpr int pitch = direct_pitch(kConfig);  // of the sums of a share of k in shared memory
  static constexpr int shared_bytes = sm80::shared_bytes(kConfig, sizeof(typename Products::Stored));
  static constexpr int groups = eights_n / 2;  // of 16 columns, of which a lane stores four adjacent ones
};

// Adds the products of a warp's share of k, and calls `meanwhile` while the first loads are on their way. Where the
// config has two stages, a block of k is loaded while the one before it is multiplied.
template <typename Kernel, typename Meanwhile>
__device__ __forceinline__ void multiply_direct(typename Kernel::ReaderA& reader_a, typename Kernel::ReaderB& reader_b,
                                                const typename Kernel::Products& products, int64_t k,
                                                typename Kernel::Sums& sums, const Meanwhile& meanwhile) {
  constexpr int block_k = Kernel::ReaderA::block_k, step_k = Kernel::ReaderA::step_k;
  constexpr bool is_ahead = Kernel::config.stages == 2;
  struct Blocks {
    typename Kernel::ReaderA::Block a;
    typename Kernel::ReaderB::Block b;
  };
  const auto steps_of = [](int64_t left) {
    return left < block_k ? (static_cast<int>(left) + step_k - 1) / step_k : Kernel::steps;
  };
  const auto fetch = [&](Blocks& blocks, int64_t left) {
    reader_a.fetch(blocks.a, steps_of(left));
    reader_b.fetch(blocks.b, steps_of(left));
  };
  int64_t left = k;
  const auto multiply = [&](const Blocks& now, Blocks& next) {
    if (is_ahead && left > block_k) fetch(next, left - block_k);
    const int steps = steps_of(left);
#pragma unroll
    for (int step = 0; step < Kernel::steps; ++step)
      if (step < steps) products.multiply(now.a[step], now.b[step], sums);
    left -= block_k;
    if (!is_ahead && left > 0) fetch(next, left);
  };
  Blocks first, second;
  if (left > 0) fetch(first, left);
  meanwhile();
#pragma unroll 1
  while (left > 0) {
    if constexpr (is_ahead) {
      multiply(first, second);
      if (left <= 0) break;
      multiply(second, first);
    } else {
      multiply(first, first);
    }
  }
}

// Takes kRows x kGroups times kColumns adjacent columns from a thread's registers to the output: activation, one
// rounding. Rows are eight apart, groups sixteen columns.
template <int kRows, int kGroups, int kColumns, typename Accumulator>
__device__ __forceinline__ void store_direct(const KernelParams& params, int64_t out, int64_t row, int64_t column,
                                             Accumulator (&values)[kRows * kGroups * kColumns]) {
  const KernelProblem& problem = params.problem;
  const Output& to = problem.out;
  const int64_t begin = out * to.stride_batch + row * to.stride_m + column * to.stride_n;
  const auto store_as = [&]<typename Element>(void* data, Element) {
    auto* first = static_cast<Element*>(data) + begin;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (row + i * 8 >= problem.m) break;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        Element* at = first + i * 8 * to.stride_m + group * 16 * to.stride_n;
        const int64_t columns = problem.n - column - group * 16;
        const auto* from = values + (i * kGroups + group) * kColumns;
        if constexpr (kColumns == kColumnsPerLane) {
          if (params.vector_stores && columns >= kColumns) {
            *reinterpret_cast<Quad<Element>*>(at) = {round_to<Element>(from[0]), round_to<Element>(from[1]),
                                                     round_to<Element>(from[2]), round_to<Element>(from[3])};
            continue;
          }
        }
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          if (j < columns) at[j * to.stride_n] = round_to<Element>(from[j]);
      }
    }
  };
  const auto store = [&](void* data) {
    if constexpr (sizeof(Accumulator) == 8) {
      store_as(data, double());
    } else {
      switch (problem.out_dtype) {
        case DType::kFloat16:
          return store_as(data, __half());
        case DType::kBFloat16:
          return store_as(data, __nv_bfloat16());
        default:
          return store_as(data, float());
      }
    }
  };
  if (problem.pre_activation != nullptr) store(problem.pre_activation);
  activate_all(values, problem.epilogue);
  store(to.data);
}

// The sums of a warp that has all of k.
template <typename Kernel>
__device__ __forceinline__ void store_own_sums(
    const KernelParams& params, int64_t out, int64_t row, int64_t column, const typename Kernel::Sums& sums,
    const typename Kernel::Accumulator (&biases)[Kernel::groups][kColumnsPerLane]) {
  typename Kernel::Accumulator values[Kernel::eights_m * Kernel::groups * kColumnsPerLane];
#pragma unroll
  for (int m = 0; m < Kernel::eights_m; ++m)
#pragma unroll
    for (int group = 0; group < Kernel::groups; ++group)
#pragma unroll
      for (int j = 0; j < kColumnsPerLane; ++j)
        values[(m * Kernel::groups + group) * kColumnsPerLane + j] =
            sums[m / 2][group * 2 + j / 2][m % 2 * 2 + j % 2] + biases[group][j];
  store_direct<Kernel::eights_m, Kernel::groups, kColumnsPerLane>(params, out, row, column, values);
}

// Adds up the sums of the warps that share k, in the order of k, and stores an element by each of the first threads.
template <typename Kernel>
__device__ __forceinline__ void store_shared_sums(const KernelParams& params, const CtaTile& tile, int shares,
                                                  typename Kernel::Accumulator bias,
                                                  const typename Kernel::Sums& sums) {
  using Accumulator = typename Kernel::Accumulator;
  constexpr int rows = Kernel::config.tile_m, columns = Kernel::config.tile_n, share = rows * Kernel::pitch;
  static_assert(rows * columns <= Kernel::threads);
  auto* shared = reinterpret_cast<Accumulator*>(ptx::DynamicShared<128>{}.begin);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  Accumulator* own = shared + warp * share + lane / 4 * Kernel::pitch + lane % 4 * kColumnsPerLane;
#pragma unroll
  for (int m = 0; m < Kernel::eights_m; ++m)
#pragma unroll
    for (int n = 0; n < Kernel::eights_n; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        own[m * 8 * Kernel::pitch + n / 2 * 16 + n % 2 * 2 + i] = sums[m / 2][n][m % 2 * 2 + i];
  __syncthreads();  // the sums of all warps are there
  if (thread >= rows * columns) return;
  const Accumulator* from = shared + thread / columns * Kernel::pitch + thread % columns;
  Accumulator value[1] = {0};
#pragma unroll 1
  for (int i = 0; i < shares; ++i) value[0] += from[i * share];
  value[0] += bias;
  store_direct<1, 1, 1>(params, tile.out, tile.m_begin + thread / columns, tile.n_begin + thread % columns, value);
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_direct(const __grid_constant__ KernelParams params) {
  constexpr TileConfig config = Kernel::config;
  using Accumulator = typename Kernel::Accumulator;
  const KernelProblem& problem = params.problem;
  if constexpr (std::is_same_v<typename Kernel::Products, FfmaProducts>)  // only float32 is multiplied under a flag
    if (!holds(problem.device_flag)) return;
  const CtaTile tile(params, config);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t column = tile.n_begin + (Kernel::k_shares == 1 ? warp * Kernel::warp_n : 0);
  if (column >= problem.n) return;  // of warps that share k none
  constexpr int step_k = Kernel::ReaderA::step_k, of_shares = step_k * Kernel::k_shares;
  const int64_t share = Kernel::k_shares == 1 ? problem.k : (problem.k + of_shares - 1) / of_shares * step_k;
  const int64_t k_begin = Kernel::k_shares == 1 ? 0 : warp * share;
  const int64_t k_end = min(problem.k, k_begin + share);
  typename Kernel::ReaderA a(problem.a, tile.batch, tile.m_begin, problem.m, k_begin, k_end);
  typename Kernel::ReaderB b(problem.b, tile.batch, column, problem.n, k_begin, k_end);
  typename Kernel::Products products{};
  if constexpr (requires { products.of_a; })
    products = {{a.by_quarters(), problem.dtype == DType::kFloat8E4M3},
                {b.by_quarters(), problem.b_dtype == DType::kFloat8E4M3}};
  typename Kernel::Sums sums = {};
  if constexpr (Kernel::k_shares == 1) {
    const int64_t lane_column = column + lane % 4 * kColumnsPerLane;
    Accumulator biases[Kernel::groups][kColumnsPerLane];
    multiply_direct<Kernel>(a, b, products, k_end - k_begin, sums, [&] {
#pragma unroll
      for (int group = 0; group < Kernel::groups; ++group)
        load_biases(problem.epilogue, lane_column + group * 16, problem.n - lane_column - group * 16, 1, biases[group]);
    });
    store_own_sums<Kernel>(params, tile.out, tile.m_begin + lane / 4, lane_column, sums, biases);
  } else {
    Accumulator bias[1];
    multiply_direct<Kernel>(a, b, products, k_end - k_begin, sums, [&] {
      const int64_t thread_column = column + threadIdx.x % config.tile_n;
      load_biases(problem.epilogue, thread_column, problem.n - thread_column, 1, bias);
    });
    const int shares = share == 0 ? 0 : static_cast<int>((problem.k + share - 1) / share);
    store_shared_sums<Kernel>(params, tile, shares, bias[0], sums);
  }
}

}  // namespace tileon::sm80
