// Codes and scales to rows of numbers: a warp a row, or a strip of one.
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/kernels/encoding.cuh"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/operand_prep/bfloat16.cuh"
#include "cuda/sm90/operand_prep/narrow.cuh"
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

template <ElementType kA, ElementType kB, ScaleType kScale>
__global__ void __launch_bounds__(kThreads, 5) prepare_bfloat16(const __grid_constant__ PrepareParams params) {
  ptx::grid_dependency_wait();
  const BlockScaledProblem& problem = params.problem;
  const int k = static_cast<int>(problem.k);
  const auto strips = static_cast<unsigned>(params.strips);
  const WarpRow warp(problem, blockIdx.x / strips);
  bool lost = false;
  const int strip = static_cast<int>(blockIdx.x % strips);
  if (warp.exists)
    lost = warp.is_b ? strip_to_bfloat16<kB, kScale>(problem.b, warp.row, strip, params.strips, k, params.b.rows)
                     : strip_to_bfloat16<kA, kScale>(problem.a, warp.row, strip, params.strips, k, params.a.rows);
  if constexpr (kA == ElementType::kE4M3 || kB == ElementType::kE4M3) leave_word(params, lost);
}

__global__ void __launch_bounds__(kThreads, 5) prepare_mxfp4(const __grid_constant__ PrepareMxfp4Params params) {
  const Form form = form_of(params.choice);
  const BlockScaledProblem& problem = params.problem;
  const auto ctas_a = static_cast<unsigned>(row_groups(problem.m)) * params.strips_a;
  const bool is_b = blockIdx.x >= ctas_a;
  if (is_b && params.b_is_int8 && form == Form::kInt8) return;
  const BlockScaledOperand& operand = is_b ? problem.b : problem.a;
  const PreparedOperand& prepared = is_b ? params.b : params.a;
  const auto cta = static_cast<int>(blockIdx.x - (is_b ? ctas_a : 0));
  const int strips = is_b ? params.strips_b : params.strips_a, strip = cta % strips;
  const int64_t row = static_cast<int64_t>(cta / strips) * kRowsPerCta + threadIdx.x / 32;
  if (row >= (is_b ? problem.n : problem.m)) return;
  const int k = static_cast<int>(problem.k), largest = prepared.exponents[row];
  switch (form) {
    case Form::kInt8:
      return strip_to_bytes<Form::kInt8>(operand, row, largest, strip, strips, k, prepared.rows);
    case Form::kFloat8:
      return strip_to_bytes<Form::kFloat8>(operand, row, largest, strip, strips, k, prepared.rows);
    case Form::kBFloat16:
      strip_to_bfloat16<ElementType::kE2M1, ScaleType::kE8M0>(operand, row, strip, strips, k, prepared.rows);
  }
}

}  // namespace

void run_prepare_bfloat16(const PrepareParams& params, cudaStream_t stream) {
  constexpr auto e4m3 = ElementType::kE4M3, e2m1 = ElementType::kE2M1;
  constexpr auto e8m0 = ScaleType::kE8M0;
  const auto kernel = [&] {
    if (params.problem.scale_type == ScaleType::kE4M3) return prepare_bfloat16<e2m1, e2m1, ScaleType::kE4M3>;
    const bool a_is_e4m3 = params.problem.a.element == e4m3, b_is_e4m3 = params.problem.b.element == e4m3;
    if (a_is_e4m3) return b_is_e4m3 ? prepare_bfloat16<e4m3, e4m3, e8m0> : prepare_bfloat16<e4m3, e2m1, e8m0>;
    return b_is_e4m3 ? prepare_bfloat16<e2m1, e4m3, e8m0> : prepare_bfloat16<e2m1, e2m1, e8m0>;
  }();
  const auto ctas = static_cast<unsigned>(prepare_ctas(params.problem, params.strips));
  launch(kernel, dim3(ctas), kThreads, 0, params, stream);
}

void run_prepare_mxfp4(const PrepareMxfp4Params& params, cudaStream_t stream) {
  const int64_t ctas_a = row_groups(params.problem.m) * params.strips_a;
  const int64_t ctas_b = row_groups(params.problem.n) * params.strips_b;
  launch(&prepare_mxfp4, dim3(static_cast<unsigned>(ctas_a + ctas_b)), kThreads, 0, params, stream);
}

}  // namespace tileon::sm90
