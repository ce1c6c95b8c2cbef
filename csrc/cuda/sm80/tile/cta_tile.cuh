// A CTA's tile of the output: what the host hands to the kernel, whether and where the CTA and its warps compute, and,
// for mma.m16n8, the register fragments of a warp: their loads from a k-block in shared memory, their products, and the
// store of the accumulators to the output.
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/common/kernel_choice.h"
#include "cuda/common/tile_order.h"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/heuristics/k_slices.h"
#include "cuda/sm80/loaders/operand_tile.cuh"

namespace tileon::sm80 {

template <typename Problem_>
struct TileParams {
  using Problem = Problem_;
  Problem problem;
  FastTileOrder order;
  FastDivisor tiles_of_output;  // block index = output * tiles_of_output + tile
  int64_t first_out;            // this launch's first output: a matrix of the batch or, of it, a slice's sums
  bool vector_stores;           // four neighbouring columns of the output can be stored at once
  KSlices slices;
  FastDivisor slices_count;  // slices.count
};
using KernelParams = TileParams<KernelProblem>;
using BlockScaledParams = TileParams<ScaledKernelProblem>;

// Whether a word of the flag is set; all threads of the CTA take part. A kernel with a flag may have been launched
// while the kernels that write the flag still run: it waits for them. Mostly that is all the kernel does, so a thread
// asks for many words at once, each of which takes as long to come as all of them.
__device__ __forceinline__ bool any_set(const DeviceFlag& flag) {
  constexpr int kAtOnce = 12;
  ptx::grid_dependency_wait();
  const int threads = static_cast<int>(blockDim.x);
  uint32_t any = 0;
#pragma unroll 1
  for (int begin = static_cast<int>(threadIdx.x); begin < flag.count; begin += kAtOnce * threads) {
    uint32_t words[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (begin + i * threads < flag.count) words[i] = flag.words[begin + i * threads];
#pragma unroll
    for (const uint32_t word : words) any |= word;
  }
  return __syncthreads_or(static_cast<int>(any)) != 0;
}

// Whether the product is computed at all (core/problem.h).
__device__ __forceinline__ bool holds(const DeviceFlag& flag) {
  return flag.words == nullptr || any_set(flag) == flag.when_set;
}

// Whether the architecture that is being compiled for has this much shared memory for a CTA, and the instructions that
// came with `kCapability`. Where it has not, `why_not` never lets the kernel run, and its body is left out.
template <int kSharedBytes, int kCapability = 80>
__device__ constexpr bool fits_this_architecture() {
#ifdef __CUDA_ARCH__
  return kSharedBytes <= shared_limit(__CUDA_ARCH__ / 10) && kCapability <= __CUDA_ARCH__ / 10;
#else
  return true;
#endif
}

struct CtaTile {
  int64_t out;      // the output's matrix
  int64_t batch;    // the operands'
  int64_t k_begin;  // where the CTA's k begins, and how much that is
  int64_t k;
  int64_t m_begin;  // where the CTA's tile begins
  int64_t n_begin;
  int warp_m;  // where this warp's part of the tile begins
  int warp_n;
  int first_block;  // of the CTA's k-blocks
  int k_blocks;

  template <typename Params>
  __device__ __forceinline__ CtaTile(const Params& params, const TileConfig& config, int block = blockIdx.x) {
    const int output = params.tiles_of_output.divide(block);
    out = params.first_out + output;
    batch = out;
    k_begin = 0;
    k = params.problem.k;
    if (params.slices.count > 1) {
      const int sums = static_cast<int>(out);  // of which there are no more than CTAs at once
      const int matrix = params.slices_count.divide(sums);
      batch = matrix;
      k_begin = (sums - matrix * params.slices.count) * params.slices.k;
      k = min(params.slices.k, k - k_begin);
    }
    const TileCoordinate tile = params.order.at(block - output * params.tiles_of_output.divisor());
    m_begin = static_cast<int64_t>(tile.m) * config.tile_m;
    n_begin = static_cast<int64_t>(tile.n) * config.tile_n;
    const int warp = threadIdx.x / 32;
    warp_m = warp % config.warps_m * config.warp_m();
    warp_n = warp / config.warps_m * config.warp_n();
    first_block = static_cast<int>(k_begin / config.block_k);
    k_blocks = static_cast<int>((k + config.block_k - 1) / config.block_k);
  }

  __device__ __forceinline__ int end_block() const { return first_block + k_blocks; }
};

constexpr int kBytesPerKStep = 32;  // of k that one mma takes: two chunks

// Loads a warp's fragments, sixteen rows (columns, for b) at a time: four registers each. Where lo and hi are the
// halves of those sixteen and of the k-step, their order is
//   a: (mn lo, k lo), (mn hi, k lo), (mn lo, k hi), (mn hi, k hi): one m16 fragment
//   b: (mn lo, k lo), (mn lo, k hi), (mn hi, k lo), (mn hi, k hi): two n8 fragments
// Offsets are kept as exclusive-or of a part that depends on the lane and a part that does not (see swizzled_chunk).
template <typename Element, typename Tile, Side kSide, int kWarpMn>
class FragmentLoader {
 public:
  static constexpr int kCount = kWarpMn / 16;
  static constexpr int kElementsPerKStep = kBytesPerKStep / int(sizeof(Element));

  __device__ FragmentLoader(int warp_begin, int lane) {
    const int matrix = lane / 8;
    const int mn_half = kSide == Side::kA ? matrix % 2 : matrix / 2;
    const int k_half = kSide == Side::kA ? matrix / 2 : matrix % 2;
    if constexpr (Tile::major == Major::kK) {
      lane_offset_ = Tile::offset(warp_begin + mn_half * 8 + lane % 8, k_half);
    } else if constexpr (sizeof(Element) == 2) {
      lane_offset_ = Tile::offset(k_half * 8 + lane % 8, warp_begin / Tile::elements_per_chunk + mn_half);
    } else {
      const int mn = warp_begin + lane / 4;
      lane_offset_ = Tile::offset(lane % 4, mn / Tile::elements_per_chunk) + mn % Tile::elements_per_chunk * 4;
    }
  }

  __device__ __forceinline__ void load(uint32_t shared, int k_step, uint32_t (&fragments)[kCount][4]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) load_one(shared, k_step, i, fragments[i]);
  }

  __device__ __forceinline__ void load_one(uint32_t shared, int k_step, int i, uint32_t (&fragment)[4]) const {
    if constexpr (Tile::major == Major::kK) {
      ptx::ldmatrix_x4(fragment, shared + (lane_offset_ ^ (k_step * kBytesPerKStep)) + i * 16 * Tile::row_bytes);
    } else if constexpr (sizeof(Element) == 2) {
      ptx::ldmatrix_x4_trans(fragment,
                             shared + (lane_offset_ ^ (i * 16 * 2)) + k_step * kElementsPerKStep * Tile::row_bytes);
    } else {
      load_words(shared + k_step * kElementsPerKStep * Tile::row_bytes, i, fragment);
    }
    if constexpr (sizeof(Element) == 4) {
#pragma unroll
      for (uint32_t& word : fragment) word = ptx::float_to_tf32(word);
    }
  }

 private:
  // 32-bit elements along mn: no ldmatrix transposes those.
  __device__ __forceinline__ void load_words(uint32_t shared, int i, uint32_t (&fragment)[4]) const {
#pragma unroll
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int mn_half = kSide == Side::kA ? matrix % 2 : matrix / 2;
      const int k_half = kSide == Side::kA ? matrix / 2 : matrix % 2;
      const uint32_t address = shared + (lane_offset_ ^ ((i * 16 + mn_half * 8) * 4)) + k_half * 4 * Tile::row_bytes;
      fragment[matrix] = ptx::load_shared_4(address);
    }
  }

  uint32_t lane_offset_;
};

// Adds the products of row `m` of the fragments of a, `a`, and all of b. Odd rows go through b from its end, so that
// two neighbouring products share their b.
template <typename ElementA, typename ElementB, int kCountB>
__device__ __forceinline__ void multiply_row(int m, const uint32_t (&a)[4], const uint32_t (&b)[kCountB][4],
                                             float (&sums)[2 * kCountB][4]) {
#pragma unroll
  for (int step = 0; step < 2 * kCountB; ++step) {
    const int n = m % 2 ? 2 * kCountB - 1 - step : step;
    ptx::mma_m16n8<ElementA, ElementB>(sums[n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
  }
}

// What one warp writes at a time, as wide as the warp's tile: the 16 rows of a fragment; of SIMT a row of every patch.
template <typename Accumulator_, TileConfig kConfig>
struct WarpSlab {
  using Accumulator = Accumulator_;
  static constexpr int columns = kConfig.warp_n();
  static constexpr int rows = slab_rows(kConfig.family);
  static constexpr int pitch = columns + slab_padding(kConfig.family);
  static constexpr int bytes = rows * pitch * int(sizeof(Accumulator));
};

// What kernels of such fragments have in common, from a config's tile, the operands' elements in it and their majors.
template <TileConfig kConfig, typename ElementA, Major kMajorA, Major kMajorB, typename ElementB = ElementA>
struct FragmentKernel {
  static_assert(sizeof(ElementA) == sizeof(ElementB));
  static constexpr TileConfig config = kConfig;
  static constexpr int threads = kConfig.threads();
  using TileA = OperandTile<ElementA, kConfig.tile_m, kConfig.block_k, kMajorA>;
  using TileB = OperandTile<ElementB, kConfig.tile_n, kConfig.block_k, kMajorB>;
  using LoaderA = FragmentLoader<ElementA, TileA, Side::kA, kConfig.warp_m()>;
  using LoaderB = FragmentLoader<ElementB, TileB, Side::kB, kConfig.warp_n()>;

  static constexpr int k_steps = kConfig.block_k * int(sizeof(ElementA)) / kBytesPerKStep;
  static constexpr int fragments_m = LoaderA::kCount;      // of 16 rows
  static constexpr int fragments_n = LoaderB::kCount * 2;  // of 8 columns
  using Sums = float[fragments_m][fragments_n][4];
  // The store's slabs, one a warp, take the k-blocks' place when the sums are done.
  using Slab = WarpSlab<float, kConfig>;
  static constexpr int shared_bytes = sm80::shared_bytes(kConfig, sizeof(ElementA));
  static_assert(shared_bytes >= threads / 32 * Slab::bytes);
};

// Takes one warp's sums through its slab in `shared_memory` (each warp has one of its own) to the output. Lane l holds
// columns 2 (l % 4) and 2 (l % 4) + 1 of each n8, in row l / 4 first, then in row l / 4 + 8.
template <typename Slab, typename Problem, int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void store_fragments(const TileParams<Problem>& params, int64_t out, int64_t row_begin,
                                                int64_t column_begin, unsigned char* shared_memory,
                                                const typename Slab::Accumulator (&sums)[kFragmentsM][kFragmentsN][4]) {
  using Accumulator = typename Slab::Accumulator;
  static_assert(Slab::rows == 16);
  struct alignas(2 * sizeof(Accumulator)) Pair {
    Accumulator first, second;
  };
  const int lane = threadIdx.x % 32;
  auto* slab = reinterpret_cast<Accumulator*>(shared_memory + threadIdx.x / 32 * Slab::bytes);
  Accumulator* lane_slab = slab + lane / 4 * Slab::pitch + lane % 4 * 2;
  const WarpStore<Accumulator, Slab::columns, Problem> warp_store(params.problem, params.vector_stores, out,
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
