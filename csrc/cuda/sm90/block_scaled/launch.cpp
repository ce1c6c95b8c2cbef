// Block-scaled products as sm90.h declares them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>

#include "../launch.h"
#include "../params.h"
#include "../sm90.h"
#include "config.h"
#include "few_rows/launch.h"
#include "params.h"
#include "prepare.h"
#include "rows.h"

namespace tileon::sm90 {
namespace {

class Kernels {
 public:
  Kernels() {
    for (int row = 0; row < kBlockScaledRowCount; ++row) {
      if (kBlockScaledRows[row].route == Route::kFewRows) continue;
      const int dense_row = kBlockScaledRows[row].tile;
      const bool int8 = kBlockScaledRows[row].route == Route::kInt8;
      kernels_[row][0].function =
          int8 ? find_block_scaled<Int8Pair, __half>(dense_row) : find_block_scaled<__nv_bfloat16, __half>(dense_row);
      kernels_[row][1].function = int8 ? find_block_scaled<Int8Pair, __nv_bfloat16>(dense_row)
                                       : find_block_scaled<__nv_bfloat16, __nv_bfloat16>(dense_row);
    }
  }

  // Either one stores outputs that do not go through TMA.
  Kernel& at(int row, DType out_dtype) { return kernels_[row][out_dtype == DType::kBFloat16]; }

 private:
  std::array<std::array<Kernel, 2>, kBlockScaledRowCount> kernels_;
};

Kernel& kernel_of(int row, DType out_dtype) {
  static Kernels kernels;
  return kernels.at(row, out_dtype);
}

// One product on its way through a row's kernels.
struct Run {
  const BlockScaledProblem& problem;
  const Gpu& gpu;
  cudaStream_t stream;
  PreparedOperand a, b;
  uint32_t* summary;

  void multiply(int row, const Condition& condition, const Condition& summarized) const {
    const BlockScaledRow& this_row = kBlockScaledRows[row];
    const TileConfig& tile = kRows[this_row.tile].tile;
    const GemmProblem prepared = prepared_problem(problem, this_row.route, a.rows, b.rows);
    LaunchPlan plan = plan_launch(kRows[this_row.tile], prepared, gpu);
    ScaledParams params{
        plan.params, condition,  summarized.words == nullptr ? nullptr : summary, summarized, problem.global_scale,
        a.exponents, b.exponents};
    launch(kernel_of(row, problem.out_dtype), dim3(static_cast<unsigned>(plan.clusters)), tile.threads(),
           plan.shared_bytes, &params, stream);
  }

  // Returns the condition under which bfloat16 lost something.
  Condition by_bfloat16(int row, uint32_t* words) const {
    const int strips = strips_of(problem, Route::kBFloat16);
    run_prepare_bfloat16({problem, a, b, words, strips}, stream);
    const bool has_e4m3 = problem.a.element == ElementType::kE4M3 || problem.b.element == ElementType::kE4M3;
    if (!has_e4m3) {  // bfloat16 holds every e2m1 times its scale
      multiply(row, {}, {});
      return {};
    }
    multiply(row, {}, {words, static_cast<int>(prepare_ctas(problem, strips)), true});
    return {summary, kRows[kBlockScaledRows[row].tile].tile.consumers * 4, true};
  }

  void by_int8(int row, uint32_t* words, uint32_t* wide_words) const {
    run_prepare_int8({problem, a, b, words, 1}, stream);
    const auto count = static_cast<int>(prepare_ctas(problem, 1));
    multiply(row, {words, count, false}, {words, count, true});
    BlockScaledProblem wide = problem;
    wide.condition = {summary, kSummaryWords, true};
    constexpr int strips = 1;  // most of the time it does not run, and fewer CTAs leave sooner
    run_prepare_bfloat16({wide, a, b, wide_words, strips}, stream);
    multiply(wide_row(row), wide.condition, {});
  }
};

}  // namespace

int block_scaled_row_count() { return kBlockScaledRowCount; }
const char* block_scaled_row_name(int row) { return kBlockScaledRows[row].name; }
const char* block_scaled_row_formats(int row) {
  return kBlockScaledRows[row].route == Route::kInt8 ? "mxfp4" : "mxfp8,mxfp4,mixed,nvfp4";
}
const char* why_not(int row, const BlockScaledProblem& problem, const Gpu& gpu) {
  return why_not(kBlockScaledRows[row].route, problem, gpu);
}
int choose_row(const BlockScaledProblem& problem, const Gpu& gpu) { return choose(problem, gpu); }
int64_t scratch_bytes(int row, const BlockScaledProblem& problem) {
  const Route route = kBlockScaledRows[row].route;
  return route == Route::kFewRows ? 0 : scratch_of(problem, route).bytes;
}

Condition run(int row, const BlockScaledProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  auto* memory = static_cast<uint8_t*>(scratch);
  const Route route = kBlockScaledRows[row].route;
  if (route == Route::kFewRows) {
    run_few_rows(kBlockScaledRows[row].tile, problem, gpu, stream);
    return {};
  }
  const Scratch place = scratch_of(problem, route);
  const auto words_at = [&](int64_t begin) { return reinterpret_cast<uint32_t*>(memory + begin); };
  const Run run{problem,
                gpu,
                stream,
                {memory, memory + place.exponents_a},
                {memory + place.b, memory + place.exponents_b},
                words_at(place.summary)};
  if (route == Route::kBFloat16) return run.by_bfloat16(row, words_at(place.words));
  run.by_int8(row, words_at(place.words), words_at(place.wide_words));
  return {};
}

}  // namespace tileon::sm90
