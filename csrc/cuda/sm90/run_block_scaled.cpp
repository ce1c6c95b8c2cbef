// Block-scaled products as sm90.h declares them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "cuda/runtime/error.h"
#include "cuda/sm90/heuristics/select.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/launch/params.h"
#include "cuda/sm90/layout/scaled_params.h"
#include "cuda/sm90/operand_prep/prepare.h"
#include "cuda/sm90/registry/block_scaled.h"
#include "cuda/sm90/run.h"
#include "cuda/sm90/sm90.h"

namespace tileon::sm90 {
namespace {

// Those of rows whose kernels take `Params`. Those for few rows are in run_small_m.cpp.
template <typename Params>
class Kernels {
 public:
  Kernels() {
    for (int row = 0; row < kBlockScaledConfigCount; ++row) {
      add<Route::kBFloat16>(row);
      add<Route::kInt8>(row);
      add<Route::kFloat8>(row);
    }
  }

  // Either one stores outputs that do not go through TMA.
  Kernel<Params>& at(int row, DType out_dtype) { return kernels_[row][out_dtype == DType::kBFloat16]; }

 private:
  template <Route kRoute>
  void add(int row) {
    if constexpr (std::is_same_v<ParamsOf<kRoute>, Params>) {
      if (kBlockScaledConfigs[row].route != kRoute) return;
      at(row, DType::kFloat16).function = find_block_scaled<kRoute, __half>(row);
      at(row, DType::kBFloat16).function = find_block_scaled<kRoute, __nv_bfloat16>(row);
    }
  }

  std::array<std::array<Kernel<Params>, 2>, kBlockScaledConfigCount> kernels_;
};

template <typename Params>
Kernel<Params>& kernel_of(int row, DType out_dtype) {
  static Kernels<Params> kernels;
  return kernels.at(row, out_dtype);
}

// A problem without the rows of b, which need no preparation.
Problem of_a_alone(const Problem& problem) {
  Problem a = problem;
  a.n = 0;
  return a;
}

const uint32_t* word_of(const PreparedWeight& weight, int64_t rows, int64_t k) {
  const auto* bytes = static_cast<const uint8_t*>(weight.data);
  return reinterpret_cast<const uint32_t*>(bytes + PreparedLayout(weight.form, rows, k).word);
}

// One product on its way through a row's kernels.
struct Run {
  const Problem& problem;
  const Gpu& gpu;
  cudaStream_t stream;
  PreparedOperand a, b;
  uint32_t* words;
  uint32_t* summary;

  bool has_weight(PreparedForm form) const {
    return problem.prepared_b.data != nullptr && problem.prepared_b.form == form;
  }

  LaunchPlan plan_of(int row, Encoding encoding, const void* b_rows) const {
    const Problem prepared = prepared_problem(problem, encoding, a.rows, b_rows);
    const int64_t float8_k = encoding == Encoding::kFloat8 ? problem.k : 0;
    return plan_launch(dense_row_of(kBlockScaledConfigs[row], encoding), prepared, gpu, {.float8_k = float8_k});
  }

  ScaledParams params_of(const LaunchPlan& plan) const {
    return {plan.params, problem.global_scale, nullptr, nullptr, 0, a.exponents, b.exponents};
  }

  // Of every encoding: they differ in the family alone.
  static TileConfig tile_of(int row) { return dense_row_of(kBlockScaledConfigs[row], Encoding::kBFloat16).tile; }

  template <typename Params>
  void launch_row(int row, const LaunchPlan& plan, int shared_bytes, const Params& params) const {
    launch(kernel_of<Params>(row, problem.out_dtype), dim3(static_cast<unsigned>(plan.clusters)),
           tile_of(row).threads(), shared_bytes, params, stream);
  }

  // Returns the device flag that says where bfloat16 lost something.
  DeviceFlag by_bfloat16(int row) const {
    const bool has_b = has_weight(PreparedForm::kBFloat16);
    const Problem to_prepare = has_b ? of_a_alone(problem) : problem;
    const uint32_t* word_of_b = has_b ? word_of(problem.prepared_b, problem.n, problem.k) : nullptr;
    const int segments = segments_of(problem);
    run_prepare_bfloat16({scaled_kernel_problem(to_prepare), a, b, segments, words, word_of_b, nullptr}, stream);
    const LaunchPlan plan = plan_of(row, Encoding::kBFloat16, has_b ? problem.prepared_b.data : b.rows);
    ScaledParams params = params_of(plan);
    DeviceFlag lost;
    // It holds every e2m1 times its scale.
    if (problem.a.dtype == DType::kFloat8E4M3 || problem.b.dtype == DType::kFloat8E4M3) {
      params.summary = summary;
      params.words = words;
      params.word_count = static_cast<int>(prepare_ctas(to_prepare, segments));
      lost = {summary, tile_of(row).consumers * 4, true};
    }
    launch_row(row, plan, plan.shared_bytes, params);
    return lost;
  }

  void by_encoding(int row) const {
    const bool has_b = has_weight(PreparedForm::kInt8);
    const Problem to_classify = has_b ? of_a_alone(problem) : problem;
    const uint32_t* word_of_b = has_b ? word_of(problem.prepared_b, problem.n, problem.k) : nullptr;
    run_classify_scales({scaled_kernel_problem(to_classify), a.exponents, b.exponents, words, word_of_b, nullptr},
                        stream);
    const bool fast_accum = kBlockScaledConfigs[row].route == Route::kFloat8;
    const EncodingChoice choice{words, static_cast<int>(classify_ctas(to_classify)), fast_accum};
    const int segments_a = mxfp4_segments_of(problem, has_b ? problem.m : problem.m + problem.n);
    const int segments_b = has_b ? mxfp4_segments_of(problem, problem.n) : segments_a;
    run_prepare_mxfp4({scaled_kernel_problem(problem), a, b, segments_a, segments_b, choice, has_b}, stream);
    const LaunchPlan int8 = plan_of(row, Encoding::kInt8, has_b ? problem.prepared_b.data : b.rows);
    const LaunchPlan bfloat16 = plan_of(row, Encoding::kBFloat16, b.rows);
    EncodingParams params{choice, params_of(int8), params_of(bfloat16), {}};
    int shared_bytes = std::max(int8.shared_bytes, bfloat16.shared_bytes);
    if (fast_accum) {
      const LaunchPlan float8 = plan_of(row, Encoding::kFloat8, b.rows);
      params.float8 = params_of(float8);
      shared_bytes = std::max(shared_bytes, float8.shared_bytes);
    }
    launch_row(row, int8, shared_bytes, params);
  }
};

int config_count() { return kBlockScaledConfigCount; }
const char* config_name(int row) { return kBlockScaledConfigs[row].name; }
std::string config_formats(int row) {
  return is_by_encoding(kBlockScaledConfigs[row].route) ? "mxfp4" : "mxfp8,mxfp4,mixed,nvfp4";
}
const char* why_not(int row, const Problem& problem, const Gpu& gpu) {
  return why_not(kBlockScaledConfigs[row].route, problem, gpu);
}
bool may_choose(int row, const Problem& problem) {
  return problem.k > 0 && (kBlockScaledConfigs[row].route != Route::kFloat8 || may_be_float8(problem));
}
int choose_config(const Problem& problem, const Gpu& gpu) { return choose_block_scaled(problem, gpu); }
int64_t scratch_bytes(int row, const Problem& problem) {
  const Route route = kBlockScaledConfigs[row].route;
  return route == Route::kSmallM ? 0 : scratch_of(problem, route).bytes;
}

bool wants_no_copy_of(const Operand&, int64_t, const Problem&) { return false; }  // but sm80's

DeviceFlag run(int row, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  auto* memory = static_cast<uint8_t*>(scratch);
  const Route route = kBlockScaledConfigs[row].route;
  if (route == Route::kSmallM) {
    run_small_m(kBlockScaledConfigs[row].tile, problem, gpu, stream);
    return {};
  }
  const Scratch place = scratch_of(problem, route);
  uint8_t* exponents_b = memory + place.exponents_b;
  const PreparedWeight& weight = problem.prepared_b;
  if (weight.data != nullptr && weight.form == PreparedForm::kInt8)
    exponents_b = static_cast<uint8_t*>(weight.data) + PreparedLayout(weight.form, problem.n, problem.k).exponents;
  const Run run{problem,
                gpu,
                stream,
                {memory, memory + place.exponents_a},
                {memory + place.b, exponents_b},
                reinterpret_cast<uint32_t*>(memory + place.words),
                reinterpret_cast<uint32_t*>(memory + place.summary)};
  if (!is_by_encoding(route)) return run.by_bfloat16(row);
  run.by_encoding(row);
  return {};
}

}  // namespace

const Backend kBlockScaledBackend{90,      90,         config_count,  config_name,      config_formats, nullptr,
                                  why_not, may_choose, choose_config, wants_no_copy_of, scratch_bytes,  run};

void prepare_weight(const Problem& problem, const PreparedWeight& weight, void* scratch, cudaStream_t stream) {
  auto* bytes = static_cast<uint8_t*>(weight.data);
  const PreparedLayout place(weight.form, problem.n, problem.k);
  auto* word = reinterpret_cast<uint32_t*>(bytes + place.word);
  auto* words = static_cast<uint32_t*>(scratch);
  const PreparedOperand b{bytes, bytes + place.exponents};
  const int segments = segments_of(problem);
  check_cuda(cudaMemsetAsync(word, 0, sizeof(*word), stream), "clearing a word");
  if (problem.n == 0 || problem.k == 0) return;
  if (weight.form == PreparedForm::kBFloat16)
    return run_prepare_bfloat16({scaled_kernel_problem(problem), {}, b, segments, words, nullptr, word}, stream);
  run_classify_scales({scaled_kernel_problem(problem), nullptr, b.exponents, words, nullptr, word}, stream);
  const EncodingChoice int8{nullptr, 0, false};
  run_prepare_mxfp4({scaled_kernel_problem(problem), {}, b, 1, segments, int8, false}, stream);
}

const char* why_not_prepare_weight(const Problem& problem, const Gpu& gpu) { return why_not_prepare(problem, gpu); }

int64_t prepare_weight_scratch_bytes(const Problem& problem) {
  return std::max(prepare_ctas(problem, segments_of(problem)), classify_ctas(problem)) * 4;
}

}  // namespace tileon::sm90
