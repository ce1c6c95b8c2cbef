// Codes and scales to rows of numbers: a warp a row, or a strip of one.
#include <algorithm>

#include "../../ptx/grid_dependency.cuh"
#include "../launch.h"
#include "bfloat16.cuh"
#include "forms.cuh"
#include "narrow.cuh"
#include "prepare.h"
#include "strip.cuh"

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
__global__ void __launch_bounds__(kThreads) prepare_bfloat16(const __grid_constant__ PrepareParams params) {
  ptx::grid_dependency_wait();
  const BlockScaledProblem& problem = params.problem;
  const int k = static_cast<int>(problem.k);
  const auto strips = static_cast<unsigned>(params.strips);
  const WarpRow warp(problem, blockIdx.x / strips);
  bool lost = false;
  if (warp.exists)
    for_each_strip(static_cast<int>(blockIdx.x % strips), params.strips, k, [&](int begin) {
      lost |= warp.is_b ? strip_to_bfloat16<kB, kScale>(problem.b, warp.row, begin, k, params.b.rows)
                        : strip_to_bfloat16<kA, kScale>(problem.a, warp.row, begin, k, params.a.rows);
    });
  if constexpr (kA == ElementType::kE4M3 || kB == ElementType::kE4M3) leave_word(params, lost);
}

// CTAs go through the strips of a's groups of rows, then b's. Of b that is int8 already there is mostly nothing to do,
// and a few CTAs for the rest.
__global__ void __launch_bounds__(kThreads) prepare_mxfp4(const __grid_constant__ PrepareMxfp4Params params) {
  const Form form = form_of(params.choice);
  const BlockScaledProblem& problem = params.problem;
  const int k = static_cast<int>(problem.k);
  const auto strips = static_cast<unsigned>(params.strips);
  const auto ctas_a = static_cast<unsigned>(row_groups(problem.m)) * strips;
  const bool is_b = blockIdx.x >= ctas_a;
  if (is_b && params.b_is_int8 && form == Form::kInt8) return;
  const BlockScaledOperand& operand = is_b ? problem.b : problem.a;
  const PreparedOperand& prepared = is_b ? params.b : params.a;
  const int64_t rows = is_b ? problem.n : problem.m;
  const unsigned step = is_b ? gridDim.x - ctas_a : ctas_a;
  for (unsigned cta = blockIdx.x - (is_b ? ctas_a : 0); cta / strips < row_groups(rows); cta += step) {
    const int64_t row = static_cast<int64_t>(cta / strips) * kRowsPerCta + threadIdx.x / 32;
    if (row >= rows) continue;
    const int largest = prepared.exponents[row];
    for_each_strip(static_cast<int>(cta % strips), params.strips, k, [&](int begin) {
      switch (form) {
        case Form::kInt8:
          return strip_to_bytes<Form::kInt8>(operand, row, largest, begin, k, prepared.rows);
        case Form::kFloat8:
          return strip_to_bytes<Form::kFloat8>(operand, row, largest, begin, k, prepared.rows);
        case Form::kBFloat16:
          strip_to_bfloat16<ElementType::kE2M1, ScaleType::kE8M0>(operand, row, begin, k, prepared.rows);
      }
    });
  }
}

template <typename Params>
void launch_prepare(const void* kernel, const Params& params, int64_t ctas, cudaStream_t stream) {
  Params copy = params;
  launch(kernel, dim3(static_cast<unsigned>(ctas)), kThreads, &copy, stream);
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
  launch_prepare(reinterpret_cast<const void*>(kernel), params, prepare_ctas(params.problem, params.strips), stream);
}

void run_prepare_mxfp4(const PrepareMxfp4Params& params, cudaStream_t stream) {
  constexpr int64_t kFewCtas = 512;
  const int64_t ctas_a = row_groups(params.problem.m) * params.strips;
  const int64_t ctas_b = row_groups(params.problem.n) * params.strips;
  launch_prepare(reinterpret_cast<const void*>(&prepare_mxfp4), params,
                 ctas_a + (params.b_is_int8 ? std::min(ctas_b, kFewCtas) : ctas_b), stream);
}

}  // namespace tileon::sm90
