// Rows of `a` for a weight that the main loop decodes to e5m2 (mainloop/mma_float8_weight.cuh): of mxfp4 as e5m2 by the
// row's largest scale, which is known (classify_scales.cu), of mxfp8 as its fold to e4m3 (core/fold.h), whose power is
// found here. Both in the order of k that the weight has (float8_place).
#include "cuda/common/folded_row.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/narrow_codes.cuh"
#include "cuda/sm90/operand_prep/prepare.h"
#include "cuda/sm90/operand_prep/row_segment.cuh"

namespace tileon::sm90 {
namespace {

constexpr int kThreads = kRowsPerCta * 32;

// A segment of a row of mxfp4 whose largest scale is `largest`.
__device__ __forceinline__ void segment_to_float8(const ScaledKernelOperand& operand, int64_t row, int largest,
                                                  int segment, int segments, int k, uint8_t* rows) {
  using Lane = LaneRow<4, 32, 16>;
  const Lane lane(operand, row);
  const int first_k = Lane::first();  // of the lane's sixteen
  uint8_t* out = rows + row * k + first_k / kFloat8WeightK * kFloat8WeightK + float8_place(first_k % kFloat8WeightK);
  for_each_spans<1, Lane::kSpan>(segment, segments, k, [&](int span) {
    if (span * Lane::kSpan + first_k >= k) return;
    const Lane::Codes codes = lane.codes(span);
    const NarrowBlock<Encoding::kE5M2> block(lane.scale(span), largest);
    uint8_t* of_span = out + span * Lane::kSpan;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint2 eight = block.decode(codes.words[i]);
      *reinterpret_cast<uint32_t*>(of_span + float8_place(8 * i)) = eight.x;
      *reinterpret_cast<uint32_t*>(of_span + float8_place(8 * i + 1)) = eight.y;
    }
  });
}

__global__ void __launch_bounds__(kThreads, 5)
    prepare_beside_weight(const __grid_constant__ PrepareBesideWeightParams params) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const auto cta = static_cast<int>(blockIdx.x);
  const int64_t row = static_cast<int64_t>(cta / params.segments) * kRowsPerCta + threadIdx.x / 32;
  if (row >= params.problem.m) return;
  segment_to_float8(params.problem.a, row, params.a.exponents[row], cta % params.segments, params.segments,
                    static_cast<int>(params.problem.k), static_cast<uint8_t*>(params.a.rows));
}

// Folded codes of block `block` of a row.
__device__ __forceinline__ void store_folded(uint8_t* row, int64_t block, const uint4 (&codes)[2]) {
  const uint32_t words[] = {codes[0].x, codes[0].y, codes[0].z, codes[0].w,
                            codes[1].x, codes[1].y, codes[1].z, codes[1].w};
  constexpr int kBlocks = kFloat8WeightK / kFoldBlock;
  uint8_t* to = row + block / kBlocks * kFloat8WeightK + float8_place(static_cast<int>(block % kBlocks) * kFoldBlock);
#pragma unroll
  for (int i = 0; i < kFoldBlock / 8; ++i) {
    const uint32_t even = ptx::prmt(words[2 * i], words[2 * i + 1], 0x6420);
    const uint32_t odd = ptx::prmt(words[2 * i], words[2 * i + 1], 0x7531);
    *reinterpret_cast<uint32_t*>(to + float8_place(8 * i)) = even;
    *reinterpret_cast<uint32_t*>(to + float8_place(8 * i + 1)) = odd;
  }
}

// A warp a row.
__global__ void __launch_bounds__(kThreads, 2)
    fold_beside_weight(const __grid_constant__ PrepareBesideWeightParams params) {
  ptx::grid_dependency_wait();
  ptx::grid_dependency_launch();
  const ScaledKernelProblem& problem = params.problem;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsPerCta + threadIdx.x / 32;
  bool is_beyond = false;
  if (row < problem.m) {
    uint8_t* to = static_cast<uint8_t*>(params.a.rows) + row * problem.k;
    FoldedRow<8>(problem.a, problem.k / kFoldBlock, row)
        .fold(
            [&](int power) {
              const int exponent = power + 127;
              is_beyond = exponent < kMinExponent || exponent > kMaxExponent;
              if (threadIdx.x % 32 == 0) params.a.exponents[row] = static_cast<uint8_t>(is_beyond ? 127 : exponent);
            },
            [&](int64_t block, const uint4(&codes)[2]) { store_folded(to, block, codes); });
  }
  const bool any = __syncthreads_or(is_beyond) != 0;
  if (threadIdx.x == 0) params.words[blockIdx.x] = any ? kBeyondFloat8 : 0;
}

}  // namespace

void run_prepare_beside_weight(const PrepareBesideWeightParams& params, cudaStream_t stream) {
  const auto groups = static_cast<unsigned>(row_groups(params.problem.m));
  if (params.problem.a.dtype == DType::kFloat4E2M1)
    return launch(&prepare_beside_weight, dim3(groups * static_cast<unsigned>(params.segments)), kThreads, 0, params,
                  stream);
  launch(&fold_beside_weight, dim3(groups), kThreads, 0, params, stream);
}

}  // namespace tileon::sm90
