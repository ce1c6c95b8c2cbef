// GEMM on panels of the operands in shared memory: IEEE float32 on the ordinary arithmetic units (SIMT), float64 on the
// tensor cores (DMMA).
#pragma once

#include <cstdint>

#include "cuda/common/epilogue_store.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/operand_panel.cuh"
#include "cuda/sm80/loaders/pipeline.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// The types and sizes that the kernels on panels have in common.
template <typename Element_, TileConfig kConfig, PanelAccess kAccessA, PanelAccess kAccessB>
struct PanelKernel {
  using Element = Element_;
  static constexpr TileConfig config = kConfig;
  static constexpr int threads = kConfig.threads();
  using OfA = PanelOf<kConfig.family, Element, kConfig.tile_m, kConfig.block_k, kAccessA, threads>;
  using OfB = PanelOf<kConfig.family, Element, kConfig.tile_n, kConfig.block_k, kAccessB, threads>;
  using PanelA = typename OfA::Shape;
  using PanelB = typename OfB::Shape;
  using ReaderA = typename OfA::Reader;
  using ReaderB = typename OfB::Reader;
  static_assert(kConfig.stages >= 3, "a transposed block lands one fetch later");
  using Pipeline = sm80::Pipeline<kConfig.stages, kConfig.block_k, PanelA::bytes, PanelB::bytes, ReaderA, ReaderB>;
  // The store's slabs, one a warp, take the pipeline's place when the sums are done.
  using Slab = WarpSlab<Element, kConfig>;
  static constexpr int shared_bytes = sm80::shared_bytes(kConfig, sizeof(Element));
  static_assert(shared_bytes >= Pipeline::bytes && shared_bytes >= threads / 32 * Slab::bytes);
};

// SIMT: float32 products on the ordinary arithmetic units, one fused multiply-add an element and k, in the order of k.
// A thread sums a patch of thread_m x thread_n elements; a warp's lanes lie eight down m, four along n.
constexpr int kLanesM = 8;
constexpr int kLanesN = 4;

// 16 bytes.
struct alignas(16) Vector {
  static constexpr int kCount = 4;
  float values[kCount];
};

template <TileConfig kConfig, PanelAccess kAccessA, PanelAccess kAccessB>
struct SimtKernel : PanelKernel<float, kConfig, kAccessA, kAccessB> {
  static constexpr int thread_m = kConfig.warp_m() / kLanesM;
  static constexpr int thread_n = kConfig.warp_n() / kLanesN;
  static_assert(thread_m % Vector::kCount == 0 && thread_n % Vector::kCount == 0);
  using Sums = float[thread_m][thread_n];
  static_assert(PanelKernel<float, kConfig, kAccessA, kAccessB>::Slab::rows == kLanesM);
};

// A patch is made of vectors: element i of a side lies at i % 4 of vector i / 4, and the vectors of a warp's lanes lie
// side by side, so that a warp reads one stretch of shared memory without a conflict.
template <int kLanes, int kCount>
__device__ __forceinline__ void load_patch_side(const float* row, int lane, float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / Vector::kCount; ++i) {
    const auto loaded = *reinterpret_cast<const Vector*>(row + (i * kLanes + lane) * Vector::kCount);
#pragma unroll
    for (int j = 0; j < Vector::kCount; ++j) values[i * Vector::kCount + j] = loaded.values[j];
  }
}

// Sums a @ b over the CTA's k into one thread's patch. `shared` is the address of `shared_memory`.
template <typename Kernel>
__device__ __forceinline__ void multiply_patch(typename Kernel::Pipeline& pipeline, const unsigned char* shared_memory,
                                               uint32_t shared, int warp_m, int warp_n, int blocks,
                                               typename Kernel::Sums& sums) {
  const int lane_m = threadIdx.x % 32 / kLanesN;
  const int lane_n = threadIdx.x % 32 % kLanesN;
  float a[2][Kernel::thread_m];
  float b[2][Kernel::thread_n];
  const auto load = [&](int k, int buffer) {
    const auto* a_rows = reinterpret_cast<const float*>(shared_memory + (pipeline.a() - shared)) + warp_m;
    const auto* b_rows = reinterpret_cast<const float*>(shared_memory + (pipeline.b() - shared)) + warp_n;
    load_patch_side<kLanesM>(a_rows + k * Kernel::PanelA::pitch, lane_m, a[buffer]);
    load_patch_side<kLanesN>(b_rows + k * Kernel::PanelB::pitch, lane_n, b[buffer]);
  };
  multiply_blocks<Kernel::config.block_k>(pipeline, blocks, load, [&](int buffer) {
#pragma unroll
    for (int m = 0; m < Kernel::thread_m; ++m) {
#pragma unroll
      for (int step = 0; step < Kernel::thread_n; ++step) {
        const int n = m % 2 ? Kernel::thread_n - 1 - step : step;  // there and back: neighbours share a register
        sums[m][n] = fma(a[buffer][m], b[buffer][n], sums[m][n]);
      }
    }
  });
}

// Takes one warp's patches through shared memory to the output, one row of each patch at a time.
template <typename Kernel>
__device__ __forceinline__ void store(const KernelParams& params, int64_t out, int64_t row_begin, int64_t column_begin,
                                      float* slab, const typename Kernel::Sums& sums) {
  const int lane = threadIdx.x % 32;
  const WarpStore<float, Kernel::config.warp_n()> warp_store(params.problem, params.vector_stores, out, column_begin,
                                                             lane);
  float* lane_slab = slab + lane / kLanesN * Kernel::Slab::pitch + lane % kLanesN * Vector::kCount;
#pragma unroll 1
  for (int m = 0; m < Kernel::thread_m; ++m) {
#pragma unroll
    for (int this_m = 0; this_m < Kernel::thread_m; ++this_m) {
      if (this_m != m) continue;  // registers take constant indices only; the branch is the same in all lanes
#pragma unroll
      for (int n = 0; n < Kernel::thread_n; n += Vector::kCount) {
        Vector part;
#pragma unroll
        for (int j = 0; j < Vector::kCount; ++j) part.values[j] = sums[this_m][n + j];
        *reinterpret_cast<Vector*>(lane_slab + n * kLanesN) = part;
      }
    }
    __syncwarp();
    const int64_t first_row = row_begin + m / Vector::kCount * kLanesM * Vector::kCount + m % Vector::kCount;
    warp_store.template store<Kernel::Slab::rows, Kernel::Slab::pitch>(slab, first_row, Vector::kCount);
    __syncwarp();
  }
}

// DMMA: float64 products on the tensor cores, by mma.sync in float64; the sums are float64.
constexpr int kKPerDmma = 4;

template <TileConfig kConfig, PanelAccess kAccessA, PanelAccess kAccessB>
struct DmmaKernel : PanelKernel<double, kConfig, kAccessA, kAccessB> {
  static constexpr int k_steps = kConfig.block_k / kKPerDmma;
  static constexpr int fragments_m = kConfig.warp_m() / 16;
  static constexpr int fragments_n = kConfig.warp_n() / 8;
  using Sums = double[fragments_m][fragments_n][4];
};

// Sums a @ b over the CTA's k into one warp's accumulators.
template <typename Kernel>
__device__ __forceinline__ void multiply_fragments(typename Kernel::Pipeline& pipeline, const CtaTile& tile,
                                                   typename Kernel::Sums& sums) {
  const int lane_k = threadIdx.x % 32 % 4;
  const int lane_mn = threadIdx.x % 32 / 4;
  double a[2][Kernel::fragments_m][2];
  double b[2][Kernel::fragments_n];
  const auto load = [&](int k_step, int buffer) {
    const int k = k_step * kKPerDmma + lane_k;
    const auto of = [](uint32_t panel, int place) {
      return ptx::load_shared_double(panel + place * int(sizeof(double)));
    };
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m) {
      const int mn = tile.warp_m + lane_mn + m * 16;
      a[buffer][m][0] = of(pipeline.a(), Kernel::PanelA::place(k, mn));
      a[buffer][m][1] = of(pipeline.a(), Kernel::PanelA::place(k, mn + 8));
    }
#pragma unroll
    for (int n = 0; n < Kernel::fragments_n; ++n)
      b[buffer][n] = of(pipeline.b(), Kernel::PanelB::place(k, tile.warp_n + lane_mn + n * 8));
  };
  multiply_blocks<Kernel::k_steps>(pipeline, tile.k_blocks, load, [&](int buffer) {
#pragma unroll
    for (int m = 0; m < Kernel::fragments_m; ++m)
#pragma unroll
      for (int n = 0; n < Kernel::fragments_n; ++n) ptx::mma_m16n8k4(sums[m][n], a[buffer][m], b[buffer][n]);
  });
}

// Whether the sums go to the output straight from their registers: four lanes' pairs of neighbouring columns fill two
// sectors, and no warp waits for its slab. On an H100 up to 1.3 times as fast where k is short; of float32, whose slabs
// leave whole lines, slower. The formula stands in the code once a sum, so cheap ones alone.
__device__ __forceinline__ bool stores_from_registers(const KernelParams& params) {
  const Epilogue& epilogue = params.problem.epilogue;
  return params.vector_stores && params.problem.pre_activation == nullptr &&
         epilogue.activation <= Activation::kLeakyRelu;
}

// `row` and `column` are those of the lane's first sum.
template <typename Kernel>
__device__ __forceinline__ void store_from_registers(const KernelProblem& problem, int64_t out, int64_t row,
                                                     int64_t column, const typename Kernel::Sums& sums) {
  const Epilogue& epilogue = problem.epilogue;
  const bool is_relu = epilogue.activation == Activation::kRelu;
  const double slope = epilogue.activation == Activation::kNone ? 1.0 : epilogue.slope;
  const auto finished = [&](double x) {
    if (is_relu) return x < 0.0 ? 0.0 : x;  // this order keeps NaN
    return leaky_relu(x, slope);
  };
  auto* data = static_cast<double*>(problem.out.data) + out * problem.out.stride_batch;
#pragma unroll
  for (int n = 0; n < Kernel::fragments_n; ++n) {
    const int64_t columns = problem.n - column - n * 8;  // from the lane's first one on
    double biases[2] = {0.0, 0.0};
    if (epilogue.bias != nullptr && columns > 0) biases[0] = load_bias<double>(epilogue, column + n * 8);
    if (epilogue.bias != nullptr && columns > 1) biases[1] = load_bias<double>(epilogue, column + n * 8 + 1);
#pragma unroll
    for (int eight = 0; eight < 2 * Kernel::fragments_m; ++eight) {
      if (row + eight * 8 >= problem.m) break;
      const double* pair = sums[eight / 2][n] + eight % 2 * 2;
      const double2 finished_pair = {finished(pair[0] + biases[0]), finished(pair[1] + biases[1])};
      double* to = data + (row + eight * 8) * problem.out.stride_m + (column + n * 8) * problem.out.stride_n;
      if (columns > 1) *reinterpret_cast<double2*>(to) = finished_pair;
      if (columns == 1) *to = finished_pair.x;
    }
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_panels(const __grid_constant__ KernelParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  constexpr TileConfig config = Kernel::config;
  constexpr bool is_simt = config.family == Family::kSimt;
  const KernelProblem& problem = params.problem;
  if constexpr (is_simt)  // only float32 products are computed under a flag
    if (!holds(problem.device_flag)) return;
  const CtaTile tile(params, config);

  typename Kernel::ReaderA reader_a(problem.a, tile.batch, tile.k_begin, tile.m_begin, problem.m);
  typename Kernel::ReaderB reader_b(problem.b, tile.batch, tile.k_begin, tile.n_begin, problem.n);
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
  typename Kernel::Pipeline pipeline(shared, reader_a, reader_b, tile.k);
  typename Kernel::Sums sums = {};
  // Where the sums go is worked out anew: there are no registers to keep it in beside them.
  const auto place = [&] { return CtaTile(params, config, ptx::opaque(blockIdx.x)); };
  if constexpr (is_simt) {
    multiply_patch<Kernel>(pipeline, shared_memory, shared, tile.warp_m, tile.warp_n, tile.k_blocks, sums);
    pipeline.drain();  // from here on the slabs overwrite it
    const CtaTile to = place();
    store<Kernel>(params, to.out, to.m_begin + to.warp_m, to.n_begin + to.warp_n,
                  reinterpret_cast<float*>(shared_memory + threadIdx.x / 32 * Kernel::Slab::bytes), sums);
  } else {
    multiply_fragments<Kernel>(pipeline, tile, sums);
    pipeline.drain();
    const CtaTile to = place();
    const int64_t row = to.m_begin + to.warp_m, column = to.n_begin + to.warp_n;
    const int lane = threadIdx.x % 32;
    if (stores_from_registers(params))
      return store_from_registers<Kernel>(problem, to.out, row + lane / 4, column + lane % 4 * 2, sums);
    store_fragments<typename Kernel::Slab>(params, to.out, row, column, shared_memory, sums);
  }
}

}  // namespace tileon::sm80
