// GEMM for every product with scales, on any GPU from Ampere on: whatever the operands hold becomes TF32 on its way to
// shared memory, exactly, and the tensor cores multiply that. Any strides, any sizes; it decodes for generality, not
// for speed.
//
// float32 scales multiply the sums of each 128 k, in double: neither scale nor their product is ever out of range.
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/loaders/decoding_reader.cuh"
#include "cuda/sm80/loaders/pipeline.cuh"
#include "cuda/sm80/tile/cta_tile.cuh"

namespace tileon::sm80 {

// What the kernel knows of its product besides.
struct DecodedKernelProblem : ScaledKernelProblem {
  int64_t global_scale_stride = 0;
  bool vectors_a = false, vectors_b = false;  // four neighbours along k can be loaded at once
};
using DecodedParams = TileParams<DecodedKernelProblem>;

// The types and sizes of one kernel, from a config and the bits of an element of each operand.
template <TileConfig kConfig, int kBitsA, int kBitsB>
struct DecodedKernel : FragmentKernel<kConfig, float, Major::kK, Major::kK> {  // of TF32
  // Of a product under a flag, two for each SM of an H200: more would mostly come to leave. 0: as many as tiles.
  static constexpr int most_flagged_ctas = kConfig.tile_m > 16 ? 264 : 0;
  using Element = float;
  using Base = FragmentKernel<kConfig, Element, Major::kK, Major::kK>;
  using typename Base::TileA, typename Base::TileB;
  using ReaderA = DecodingReader<kBitsA, TileA, kConfig.tile_m, kConfig.block_k, Base::threads>;
  using ReaderB = DecodingReader<kBitsB, TileB, kConfig.tile_n, kConfig.block_k, Base::threads>;
  static constexpr int blocks_per_span = kFloat32ScaleBlock / kConfig.block_k;
  static_assert(kFloat32ScaleBlock % kConfig.block_k == 0 && kConfig.stages >= 3, "a block lands one fetch later");
  using Pipeline = sm80::Pipeline<kConfig.stages, kConfig.block_k, TileA::bytes, TileB::bytes, ReaderA, ReaderB>;
  static_assert(Base::shared_bytes >= Pipeline::bytes);
};

// Calls use(sum, other, row, column) with each of a thread's sums, the number at the same place of `others`, and its
// place in the warp's tile.
template <int kFragmentsM, int kFragmentsN, typename Use>
__device__ __forceinline__ void for_each_place(float (&sums)[kFragmentsM][kFragmentsN][4],
                                               float (&others)[kFragmentsM][kFragmentsN][4], const Use& use) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kFragmentsM; ++m)
#pragma unroll
    for (int n = 0; n < kFragmentsN; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        use(sums[m][n][i], others[m][n][i], m * 16 + lane / 4 + i / 2 * 8, n * 8 + lane % 4 * 2 + i % 2);
}

// Products of int8 are whole numbers, and so are their sums over 128 k, which float32 holds: they are added up as
// int32, kept in the bits of the totals. Where k is longer than this, int32 could overflow, and they are added up as
// float32.
constexpr int64_t kMaxInt32K = ((int64_t{1} << 31) - 1) / (128 * 128);

// How the sums of 128 k become part of the totals.
template <typename Kernel>
class SpanSums {
 public:
  __device__ __forceinline__ SpanSums(const DecodedKernelProblem& problem, int64_t row, int64_t column)
      : problem_(problem),
        row_(row),
        column_(column),
        is_int8_(problem.a.dtype == DType::kInt8 && problem.b.dtype == DType::kInt8 && problem.k <= kMaxInt32K) {}

  // Adds the sums of span `span` to the totals, and clears them.
  __device__ __forceinline__ void add(int span, typename Kernel::Sums& sums) {
    for_each_place(sums, totals_, [&](float& sum, float& total, int row, int column) {
      total = is_int8_ ? __int_as_float(__float_as_int(total) + static_cast<int>(sum))
                       : total + scaled(static_cast<double>(sum), row, column, span);
      sum = 0;
    });
  }

  // The totals, where there are float32 scales.
  __device__ __forceinline__ void finish(typename Kernel::Sums& sums) {
    for_each_place(sums, totals_, [&](float& sum, float total, int row, int column) {
      sum = is_int8_ ? scaled(static_cast<double>(__float_as_int(total)), row, column, 0) : total;
    });
  }

 private:
  static __device__ __forceinline__ double scale(const ScaledKernelOperand& operand, int64_t row, int64_t rows,
                                                 int span) {
    if (operand.scale == nullptr) return 1;
    const int64_t at = operand.scale_strides.offset(min(row, rows - 1), span);
    return static_cast<double>(static_cast<const float*>(operand.scale)[at]);
  }

  __device__ __forceinline__ float scaled(double sum, int row, int column, int span) const {
    const double of_a = scale(problem_.a, row_ + row, problem_.m, span);
    const double of_b = scale(problem_.b, column_ + column, problem_.n, span);
    return static_cast<float>(sum * (of_a * of_b));
  }

  const DecodedKernelProblem& problem_;
  int64_t row_, column_;  // where the warp's tile begins
  bool is_int8_;
  typename Kernel::Sums totals_ = {};
};

// Sums all of k into one warp's accumulators.
template <typename Kernel>
__device__ __forceinline__ void multiply_decoded_tile(const DecodedKernelProblem& problem, const CtaTile& tile,
                                                      uint32_t shared, typename Kernel::Sums& sums) {
  typename Kernel::ReaderA reader_a(problem.a, problem.scale_type, problem.vec, problem.vectors_a, tile.m_begin,
                                    problem.m);
  typename Kernel::ReaderB reader_b(problem.b, problem.scale_type, problem.vec, problem.vectors_b, tile.n_begin,
                                    problem.n);
  const typename Kernel::LoaderA loader_a(tile.warp_m, threadIdx.x % 32);
  const typename Kernel::LoaderB loader_b(tile.warp_n, threadIdx.x % 32);
  typename Kernel::Pipeline pipeline(shared, reader_a, reader_b, problem.k);
  const bool has_spans = problem.scale_type == ScaleType::kFloat32;
  SpanSums<Kernel> spans(problem, tile.m_begin + tile.warp_m, tile.n_begin + tile.warp_n);
#pragma unroll 1
  for (int block = 0; block < tile.k_blocks; ++block) {
    pipeline.wait_for_next();
    pipeline.fetch_next();
#pragma unroll
    for (int k_step = 0; k_step < Kernel::k_steps; ++k_step) {
      uint32_t a[Kernel::LoaderA::kCount][4], b[Kernel::LoaderB::kCount][4];
      loader_a.load(pipeline.a(), k_step, a);
      loader_b.load(pipeline.b(), k_step, b);
#pragma unroll
      for (int m = 0; m < Kernel::fragments_m; ++m) multiply_row<float, float>(m, a[m], b, sums[m]);
    }
    if (has_spans && ((block + 1) % Kernel::blocks_per_span == 0 || block + 1 == tile.k_blocks))
      spans.add(block / Kernel::blocks_per_span, sums);
  }
  pipeline.drain();
  if (has_spans) spans.finish(sums);
}

template <typename Kernel>
__device__ __forceinline__ void compute_decoded_tile(const DecodedParams& params, const CtaTile& tile,
                                                     unsigned char* shared_memory) {
  const DecodedKernelProblem& problem = params.problem;
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
  typename Kernel::Sums sums = {};
  if (problem.k > 0) multiply_decoded_tile<Kernel>(problem, tile, shared, sums);
  const int64_t first_row = tile.m_begin + tile.warp_m, first_column = tile.n_begin + tile.warp_n;
  if (problem.global_scale != nullptr)
    for_each_place(sums, sums, [&](float& sum, float, int row, int) {
      sum *= problem.global_scale[min(first_row + row, problem.m - 1) * problem.global_scale_stride];
    });
  store_fragments<typename Kernel::Slab>(params, tile.out, first_row, first_column, shared_memory, sums);
}

// A CTA has a tile; of a product under a flag, where the kernel has registers for it, every so many.
template <typename Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::config.ctas_per_sm)
    gemm_decoded(const __grid_constant__ DecodedParams params) {
  unsigned char* shared_memory = ptx::DynamicShared<128>{}.begin;
  constexpr TileConfig config = Kernel::config;
  const DecodedKernelProblem& problem = params.problem;
  if (!holds(problem.device_flag)) return;
  int block = static_cast<int>(blockIdx.x);
#pragma unroll 1
  while (true) {
    compute_decoded_tile<Kernel>(params, CtaTile(params, config, block), shared_memory);
    if (Kernel::most_flagged_ctas == 0 || problem.device_flag.words == nullptr) return;
    block += static_cast<int>(gridDim.x);
    if (block >= params.tiles_of_output.divisor()) return;
    __syncthreads();
  }
}

}  // namespace tileon::sm80
