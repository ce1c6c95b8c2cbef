// Codes and scales to rows of numbers: a warp a row, or a segment of one.
#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/layout/encoding.cuh"
#include "cuda/sm90/operand_prep/prepare.h"
#include "cuda/sm90/operand_prep/row_segment.cuh"

namespace tileon::sm90 {
namespace {

constexpr int kThreads = kRowsPerCta * 32;

// Leaves the CTA's word.
__device__ __forceinline__ void leave_word(const PrepareParams& params, bool lost) {
  auto any = static_cast<uint32_t>(__syncthreads_or(lost));
  if (threadIdx.x > 0) return;
  if (blockIdx.x == 0 && params.other_word != nullptr) any |= *params.other_word;
  params.words[blockIdx.x] = any;
  if (params.all != nullptr && any != 0) atomicOr(params.all, any);
}

template <DType kA, DType kB, ScaleType kScale>
__global__ void __launch_bounds__(kThreads, 5) prepare_bfloat16(const __grid_constant__ PrepareParams params) {
  ptx::grid_dependency_wait();
  const ScaledKernelProblem& problem = params.problem;
  const int k = static_cast<int>(problem.k);
  const auto segments = static_cast<unsigned>(params.segments);
  const unsigned group = blockIdx.x / segments;
  const int64_t groups_a = row_groups(problem.m);
  const bool is_b = group >= groups_a;
  const int64_t row = (group - (is_b ? groups_a : 0)) * kRowsPerCta + threadIdx.x / 32;
  bool lost = false;
  const int segment = static_cast<int>(blockIdx.x % segments);
  if (row < (is_b ? problem.n : problem.m))
    lost = is_b ? segment_to_bfloat16<kB, kScale>(problem.b, row, segment, params.segments, k, params.b.rows)
                : segment_to_bfloat16<kA, kScale>(problem.a, row, segment, params.segments, k, params.a.rows);
  if constexpr (kA == DType::kFloat8E4M3 || kB == DType::kFloat8E4M3) leave_word(params, lost);
}

__global__ void __launch_bounds__(kThreads, 5) prepare_mxfp4(const __grid_constant__ PrepareMxfp4Params params) {
  const Encoding encoding = encoding_of(params.choice);
  const ScaledKernelProblem& problem = params.problem;
  const auto ctas_a = static_cast<unsigned>(row_groups(problem.m)) * params.segments_a;
  const bool is_b = blockIdx.x >= ctas_a;
  if (is_b && params.b_is_int8 && encoding == Encoding::kInt8) return;
  const ScaledKernelOperand& operand = is_b ? problem.b : problem.a;
  const PreparedOperand& prepared = is_b ? params.b : params.a;
  const auto cta = static_cast<int>(blockIdx.x - (is_b ? ctas_a : 0));
  const int segments = is_b ? params.segments_b : params.segments_a, segment = cta % segments;
  const int64_t row = static_cast<int64_t>(cta / segments) * kRowsPerCta + threadIdx.x / 32;
  if (row >= (is_b ? problem.n : problem.m)) return;
  const int k = static_cast<int>(problem.k), largest = prepared.exponents[row];
  switch (encoding) {
    case Encoding::kInt8:
      return segment_to_bytes<Encoding::kInt8>(operand, row, largest, segment, segments, k, prepared.rows);
    case Encoding::kE5M2:
      return segment_to_bytes<Encoding::kE5M2>(operand, row, largest, segment, segments, k, prepared.rows);
    case Encoding::kBFloat16:
      segment_to_bfloat16<DType::kFloat4E2M1, ScaleType::kE8M0>(operand, row, segment, segments, k, prepared.rows);
  }
}

}  // namespace

void run_prepare_bfloat16(const PrepareParams& params, cudaStream_t stream) {
  const auto kernel = [&] {
    const DType a = params.problem.a.dtype, b = params.problem.b.dtype;
    if (params.problem.scale_type == ScaleType::kE4M3) return prepare_bfloat16<kE2M1, kE2M1, ScaleType::kE4M3>;
    if (a == kE4M3) return b == kE4M3 ? prepare_bfloat16<kE4M3, kE4M3, kE8M0> : prepare_bfloat16<kE4M3, kE2M1, kE8M0>;
    return b == kE4M3 ? prepare_bfloat16<kE2M1, kE4M3, kE8M0> : prepare_bfloat16<kE2M1, kE2M1, kE8M0>;
  }();
  const auto ctas = static_cast<unsigned>(prepare_ctas(params.problem, params.segments));
  launch(kernel, dim3(ctas), kThreads, 0, params, stream);
}

void run_prepare_mxfp4(const PrepareMxfp4Params& params, cudaStream_t stream) {
  const int64_t ctas_a = row_groups(params.problem.m) * params.segments_a;
  const int64_t ctas_b = row_groups(params.problem.n) * params.segments_b;
  launch(&prepare_mxfp4, dim3(static_cast<unsigned>(ctas_a + ctas_b)), kThreads, 0, params, stream);
}

}  // namespace tileon::sm90
