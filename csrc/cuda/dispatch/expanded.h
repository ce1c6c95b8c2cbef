// A backend of products with scales that goes by other kernels: operands become numbers, or stay codes, that the
// kernels of matmul or of block-scaled products multiply; a last pass multiplies the sums by what scales are left, and
// finishes them.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>

#include "cuda/dispatch/device.h"
#include "cuda/dispatch/tables.h"
#include "cuda/elementwise/elementwise.h"

namespace tileon::expanded {

enum class Route : int8_t {
  kCodes,      // float32 scales of rows or of the whole operand: the codes alone are multiplied
  kRowGlobal,  // a global scale for each row of a: the product without it
  kFolded,     // mxfp8, mxfp4 and mixed with fast_accum: their folds, as fp8
  kHalves,     // float16 x mxfp4 or nvfp4: `a` in two parts of bfloat16 that make all of it, one below the other
  kSplit,      // the same where no kernel decodes the weight: both parts side by side, the weight as bfloat16
  kFloat32,    // anything else: elements times scales, as float32
};

struct RouteConfig {
  const char* name;
  const char* route;
  bool measured = true;  // on hardware: the choice takes no other
};
constexpr RouteConfig kConfigs[] = {{"expanded_codes", "codes"},   {"expanded_row_global", "row_global"},
                                    {"expanded_folded", "folded"}, {"expanded_halves", "halves"},
                                    {"expanded_split", "split"},   {"expanded_float32", "float32"}};
static_assert(std::size(kConfigs) == static_cast<int>(Route::kFloat32) + 1);

// Whoever asks for the fold by its number allows it; the choice takes it with fast_accum alone.
inline bool takes_fold(Problem problem) {
  problem.fast_accum = true;
  return problem.may_be_folded();
}

// A product on its way: what becomes of the operands, the product of that, and where each part of the scratch begins.
struct Steps {
  std::optional<OperandExpandProblem> a, b;
  std::optional<OperandFoldProblem> fold_a, fold_b;
  Problem inner;
  Backends backends;
  BackendConfig config;  // no backend where none takes the inner product
  bool finishes = false;
  FinishProblem finish;
  int64_t begin_of_b = 0, begin_of_sums = 0, begin_of_scratch = 0, bytes = 0;
};

inline int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The operand in `dtype`, in rows from a multiple of 16 bytes on, in the place of itself.
inline OperandExpandProblem expand(Operand& operand, int64_t rows, int64_t k, DType dtype, bool with_scales,
                                   void* memory) {
  const int64_t per_vector = 16 / info(dtype).bytes, pitch = (k + per_vector - 1) / per_vector * per_vector;
  const OperandExpandProblem made{operand, rows, k, with_scales, dtype, memory, pitch};
  operand = {{memory, pitch, 1, 0}, dtype, {}};
  return made;
}

// The operand in bfloat16 twice, one behind the other along k: split in two, or the same again.
inline OperandExpandProblem expand_twice(Operand& operand, int64_t rows, int64_t k, bool is_split, void* memory) {
  OperandExpandProblem made = expand(operand, rows, 2 * k, DType::kBFloat16, true, memory);
  made.k = made.second = k;
  made.is_split = is_split;
  return made;
}

// The operand in two parts of bfloat16 whose sum it is: twice as many rows, the second parts behind all first ones.
inline OperandExpandProblem expand_below(Operand& operand, int64_t rows, int64_t k, void* memory) {
  OperandExpandProblem made = expand(operand, rows, k, DType::kBFloat16, true, memory);
  made.second = rows * made.pitch;
  made.is_split = true;
  return made;
}

// Products by 16-bit numbers that float16 `a` is split into: exact for elements that bfloat16 holds under any scale.
inline bool may_be_split(const Problem& problem) {
  return problem.is_weight_only() && problem.a.dtype == DType::kFloat16 && problem.b.dtype == DType::kFloat4E2M1;
}

// Whether the product has what the kernels of matmul leave to a last pass.
inline bool needs_last_pass(const Problem& problem) {
  return problem.global_scale != nullptr || problem.out_dtype == DType::kFloat8E4M3;
}

inline int64_t bytes_of(const std::optional<OperandExpandProblem>& made) {
  if (!made) return 0;
  const int64_t first_parts = made->rows * made->pitch;
  const int64_t behind = made->second >= made->pitch ? made->second : 0;
  return aligned((first_parts + behind) * info(made->out_dtype).bytes);
}

// The fold of the operand, in the place of itself.
inline OperandFoldProblem fold(Operand& operand, int64_t rows, int64_t k, uint8_t* memory) {
  const int64_t pitch = (k + 15) / 16 * 16;
  const OperandFoldProblem made{operand, rows,  k,
                                memory,  pitch, reinterpret_cast<float*>(memory + aligned(rows * pitch))};
  operand = {{memory, pitch, 1, 0},
             DType::kFloat8E4M3,
             {made.scales, ScaleType::kFloat32, kFloat32ScaleBlock, flat_scales(1, 0)}};
  return made;
}

// The kernel of Hopper's that multiplies rows of codes and applies their float32 scales; its number is negative where
// there is none.
inline BackendConfig row_scales_config(const Problem& problem, const Gpu& gpu) {
  const Backend& backend = sm90::kBlockScaledBackend;
  return {&backend, is_for(backend, gpu) ? choice_of(backend, problem, gpu).config : -1};
}

inline int64_t bytes_of(const std::optional<OperandFoldProblem>& made) {
  return made ? aligned(made->rows * made->pitch) + aligned(made->rows * int64_t{sizeof(float)}) : 0;
}

// The sums of the inner product go to float32, and from there to the output with the scales that are left.
inline void finish_later(Steps& steps, const Problem& problem, const SumScale& row, const SumScale& column) {
  steps.finishes = true;
  const SumScale global{problem.global_scale, problem.global_scale_stride};
  steps.finish = {problem.m, problem.n, nullptr, row, column, global, problem.epilogue, problem.out_dtype, problem.out};
  steps.inner.epilogue = {};
  steps.inner.global_scale = nullptr;
  steps.inner.global_scale_stride = 0;
  steps.inner.out_dtype = DType::kFloat32;
  steps.inner.out = {nullptr, problem.n, 1, 0};
}

// Of an operand whose scales do not change along k.
inline SumScale scale_of_rows(const Operand& operand) {
  if (operand.scale.vec == 0) return {};
  return {static_cast<const float*>(operand.scale.data), operand.scale.strides.row};
}

// `scratch` is null where only the steps' sizes and the inner config are asked for.
inline Steps steps_of(Route route, const Problem& problem, const Gpu& gpu, void* scratch) {
  Steps steps;
  Problem& inner = steps.inner;
  inner = problem;
  steps.backends = {kDenseBackends};
  auto* memory = static_cast<uint8_t*>(scratch);
  switch (route) {
    case Route::kCodes:
      finish_later(steps, problem, scale_of_rows(problem.a), scale_of_rows(problem.b));
      inner.a.scale = inner.b.scale = {};
      if (problem.is_weight_only()) steps.b = expand(inner.b, problem.n, problem.k, problem.a.dtype, false, memory);
      break;
    case Route::kRowGlobal:
      finish_later(steps, problem, {}, {});
      steps.backends = {kOwnScaledBackends};
      break;
    case Route::kFolded:
      steps.fold_a = fold(inner.a, problem.m, problem.k, memory);
      steps.begin_of_b = bytes_of(steps.fold_a);
      steps.fold_b = fold(inner.b, problem.n, problem.k, memory + steps.begin_of_b);
      inner.fast_accum = false;  // the sums of 128 k are added in float32
      steps.config = row_scales_config(inner, gpu);
      if (steps.config.number >= 0) {
        steps.backends = {kOwnScaledBackends};
      } else {
        finish_later(steps, problem, scale_of_rows(inner.a), scale_of_rows(inner.b));
        inner.a.scale = inner.b.scale = {};
      }
      break;
    case Route::kHalves:
      steps.a = expand_below(inner.a, problem.m, problem.k, memory);
      inner.m = 2 * problem.m;
      steps.backends = {kOwnScaledBackends};
      finish_later(steps, problem, {}, {});
      steps.finish.second = problem.m * problem.n;
      break;
    case Route::kSplit:
      steps.a = expand_twice(inner.a, problem.m, problem.k, true, memory);
      steps.begin_of_b = bytes_of(steps.a);
      steps.b = expand_twice(inner.b, problem.n, problem.k, false, memory + steps.begin_of_b);
      inner.k = 2 * problem.k;
      if (needs_last_pass(problem)) finish_later(steps, problem, {}, {});
      break;
    case Route::kFloat32:
      steps.a = expand(inner.a, problem.m, problem.k, DType::kFloat32, true, memory);
      steps.begin_of_b = bytes_of(steps.a);
      steps.b = expand(inner.b, problem.n, problem.k, DType::kFloat32, true, memory + steps.begin_of_b);
      if (needs_last_pass(problem)) finish_later(steps, problem, {}, {});
      break;
  }
  steps.begin_of_sums = bytes_of(steps.a) + bytes_of(steps.b) + bytes_of(steps.fold_a) + bytes_of(steps.fold_b);
  steps.begin_of_scratch =
      steps.begin_of_sums + (steps.finishes ? aligned(inner.m * problem.n * int64_t{sizeof(float)}) : 0);
  if (steps.finishes) {
    inner.out.data = memory + steps.begin_of_sums;
    steps.finish.sums = static_cast<const float*>(inner.out.data);
  }
  if (steps.config.number < 0) steps.config = steps.backends.choose(inner, gpu);
  if (steps.config.backend != nullptr) steps.bytes = steps.begin_of_scratch + steps.config.scratch_bytes(inner, gpu);
  return steps;
}

// ---- the backends ----

inline const char* why_not(Route route, const Problem& problem, const Gpu& gpu) {
  const bool is_constant = is_constant_along_k(problem.a, problem.k) && is_constant_along_k(problem.b, problem.k);
  if (problem.prepared_b.data != nullptr) return "it takes no prepared weight";
  if (route == Route::kCodes && !is_constant) return "it takes float32 scales that do not change along k";
  if (route == Route::kFolded && !takes_fold(problem)) return "it takes e8m0 scales of both operands";
  if ((route == Route::kHalves || route == Route::kSplit) && !may_be_split(problem))
    return "it takes float16 with mxfp4 or nvfp4";
  if (route == Route::kRowGlobal && (is_constant || problem.global_scale_stride == 0))
    return "it takes block scales and a global scale for each row";
  const Steps steps = steps_of(route, problem, gpu, nullptr);
  return steps.config.backend == nullptr || steps.config.backend == &sm80::kDecodedBackend
             ? "no other kernels take the product that it becomes"
             : nullptr;
}

// Smaller products of int8, which Hopper's kernels did not take, go by the decoding kernel, whose sums are exact.
constexpr double kExactInt8Below = 4e7;  // multiplications

// kHalves pays from so much k for each row of `a` on: its sums, twice as many in float32, are written and read. kSplit
// writes the weight instead: on an H100 both took as long at 512 to 1024 rows of 4096 and 8192 k.
constexpr int64_t kHalvesKOfRow = 12;

// Whether the choice may take the route. On an H200 the launches of a route take a third of the decoding kernel's time
// even where there is next to nothing to multiply. A fold is weighed against Hopper's other kernels.
inline bool pays(Route route, const Problem& problem, const Gpu& gpu) {
  if (problem.k == 0 || !kConfigs[static_cast<int>(route)].measured) return false;
  const bool is_int8 = problem.a.dtype == DType::kInt8 && problem.b.dtype == DType::kInt8;
  if (is_int8 && problem.products() < kExactInt8Below) return false;
  if (route == Route::kHalves && problem.m * kHalvesKOfRow > problem.k) return false;
  return route != Route::kFolded || sm90::is_fold_faster(problem, gpu);
}

// A backend of some routes, a config each.
template <Route... kRoutes>
struct Routes {
  static constexpr Route kAll[] = {kRoutes...};

  static const RouteConfig& config_at(int config) { return kConfigs[static_cast<int>(kAll[config])]; }
  static int config_count() { return std::size(kAll); }
  static const char* config_name(int config) { return config_at(config).name; }
  static ConfigFields config_fields(int config) {
    return {"scaled", "expanded", "expanded", config_at(config).route, 0, 0, 0, 1, config_at(config).measured};
  }
  static const char* why_not(int config, const Problem& problem, const Gpu& gpu) {
    return expanded::why_not(kAll[config], problem, gpu);
  }
  static Choice choose_config(const Problem& problem, const Gpu& gpu) {
    for (int config = 0; config < config_count(); ++config)
      if (pays(kAll[config], problem, gpu) && why_not(config, problem, gpu) == nullptr) return {config};
    return {};
  }
  static int64_t scratch_bytes(int config, const Problem& problem, const Gpu& gpu) {
    return steps_of(kAll[config], problem, gpu, nullptr).bytes;
  }
  static DeviceFlag run(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
    const Steps steps = steps_of(kAll[config], problem, gpu, scratch);
    if (steps.a) run_operand_expansion(*steps.a, stream);
    if (steps.b) run_operand_expansion(*steps.b, stream);
    if (steps.fold_a) run_operand_folds(*steps.fold_a, *steps.fold_b, stream);
    run_config(steps.backends, steps.config, steps.inner, gpu, static_cast<uint8_t*>(scratch) + steps.begin_of_scratch,
               stream);
    if (steps.finishes) run_finish(steps.finish, stream);
    return {};
  }

  static bool may_choose(int config, const Problem& problem) {
    return kAll[config] != Route::kFolded || problem.may_be_folded();
  }

  static constexpr Backend kBackend{80,      999,        config_count,  config_name, config_fields,
                                    why_not, may_choose, choose_config, nullptr,     scratch_bytes,
                                    run};
};

// A fold is asked for before the kernels that take its operands as they are.
constexpr const Backend& kFoldBackend = Routes<Route::kFolded>::kBackend;
constexpr const Backend& kBackend =
    Routes<Route::kCodes, Route::kRowGlobal, Route::kHalves, Route::kSplit, Route::kFloat32>::kBackend;

}  // namespace tileon::expanded
