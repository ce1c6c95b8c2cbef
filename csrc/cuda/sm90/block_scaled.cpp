// block_scaled_matmul's backend, and weights that are prepared beforehand.
#include <algorithm>
#include <type_traits>

#include "cuda/common/kernel_choice.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sm90/heuristics/recent_choices.h"
#include "cuda/sm90/heuristics/rounded_rows.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/launch/launch_sharing.h"
#include "cuda/sm90/layout/kernel_params.h"
#include "cuda/sm90/main_loop_weight.h"
#include "cuda/sm90/operand_prep/prepare.h"
#include "cuda/sm90/registry/fields.h"
#include "cuda/sm90/sm90.h"

namespace tileon::sm90 {
namespace {

// ---- operands that are prepared ----

// What is left to prepare of a product: of a weight alone scaled the rows of b; without these, and with the weight's
// word, where b is prepared already.
struct Unprepared {
  Problem problem;
  const uint32_t* word_of_b = nullptr;
  bool has_b = false;

  Unprepared(const Problem& whole, PreparedForm form) : problem(whole) {
    const PreparedWeight& weight = whole.prepared_b;
    if (whole.is_weight_only()) problem.m = 0;
    if (weight.data == nullptr || weight.form != form) return;
    problem.n = 0;
    word_of_b = reinterpret_cast<const uint32_t*>(static_cast<const uint8_t*>(weight.data) +
                                                  PreparedLayout(form, whole.n, whole.k).word);
    has_b = true;
  }
};

// One product on its way through a config's kernels.
struct Run {
  const Problem& problem;
  const Gpu& gpu;
  cudaStream_t stream;
  PreparedOperand a, b;
  uint32_t* words;
  uint32_t* summary;

  LaunchPlan plan_of(int config, Encoding encoding, const void* b_rows) const {
    const KernelConfig& chosen = kBlockScaledConfigs[config];
    return plan_launch(chosen.operands, tile_of(chosen, encoding), 1, prepared_problem(problem, a.rows, b_rows), gpu);
  }

  ScaledParams params_of(const LaunchPlan& plan) const {
    return {plan.params, problem.global_scale, nullptr, nullptr, 0, a.exponents, b.exponents};
  }

  template <Operands kOperands>
  void launch_config(int config, const LaunchPlan& plan, int shared_bytes,
                     const typename BlockScaledKernels<kOperands, DType::kFloat16>::Params& params) const {
    auto& kernel = problem.out_dtype == DType::kBFloat16
                       ? kernel_of<BlockScaledKernels<kOperands, DType::kBFloat16>>(config)
                       : kernel_of<BlockScaledKernels<kOperands, DType::kFloat16>>(config);
    launch(kernel, gpu, plan.grid(), kBlockScaledConfigs[config].tile.threads(), shared_bytes, params, stream);
  }

  // Returns the device flag that says where bfloat16 lost something.
  DeviceFlag by_bfloat16(int config) const {
    const auto [to_prepare, word_of_b, has_b] = Unprepared(problem, PreparedForm::kBFloat16);
    const int segments = segments_of(problem);
    run_prepare_bfloat16({scaled_kernel_problem(to_prepare), a, b, segments, words, word_of_b, nullptr}, stream);
    const LaunchPlan plan = plan_of(config, Encoding::kBFloat16, has_b ? problem.prepared_b.data : b.rows);
    ScaledParams params = params_of(plan);
    DeviceFlag lost;
    // bfloat16 holds every e2m1 times its scale: only e4m3 can lose something.
    if (problem.a.dtype == DType::kFloat8E4M3 || problem.b.dtype == DType::kFloat8E4M3) {
      params.summary = summary;
      params.words = words;
      params.word_count = static_cast<int>(prepare_ctas(to_prepare, segments));
      lost = {summary, kBlockScaledConfigs[config].tile.consumers * 4, true};
    }
    launch_config<Operands::kBFloat16>(config, plan, plan.shared_bytes, params);
    return lost;
  }

  void by_encoding(int config) const {
    const auto [to_classify, word_of_b, has_b] = Unprepared(problem, PreparedForm::kInt8);
    run_classify_scales({scaled_kernel_problem(to_classify), a.exponents, b.exponents, words, word_of_b, nullptr},
                        stream);
    const bool fast_accum = kBlockScaledConfigs[config].operands == Operands::kE5M2;
    const EncodingChoice choice{words, static_cast<int>(classify_ctas(to_classify)), fast_accum};
    const int segments_a = mxfp4_segments_of(problem, has_b ? problem.m : problem.m + problem.n);
    const int segments_b = has_b ? mxfp4_segments_of(problem, problem.n) : segments_a;
    run_prepare_mxfp4({scaled_kernel_problem(problem), a, b, segments_a, segments_b, choice, has_b}, stream);
    const LaunchPlan int8 = plan_of(config, Encoding::kInt8, has_b ? problem.prepared_b.data : b.rows);
    const LaunchPlan bfloat16 = plan_of(config, Encoding::kBFloat16, b.rows);
    EncodingParams params{choice, params_of(int8), params_of(bfloat16), {}};
    const int shared_bytes = std::max(int8.shared_bytes, bfloat16.shared_bytes);
    if (!fast_accum) return launch_config<Operands::kInt8>(config, int8, shared_bytes, params);
    const LaunchPlan float8 = plan_of(config, Encoding::kE5M2, b.rows);
    params.float8 = params_of(float8);
    launch_config<Operands::kE5M2>(config, int8, std::max(shared_bytes, float8.shared_bytes), params);
  }
};

// ---- few rows of a, whose kernels decode the codes themselves ----

KernelHandle<SmallMParams>& small_m_kernel(int config, const SmallMFormat& format) {
  if (format.has_float32_scales()) {
    if (format.a == kF16)
      return format.b == kE4M3 ? kernel_of<SmallMKernels<kF16, kE4M3, ScaleType::kFloat32>>(config)
                               : kernel_of<SmallMKernels<kF16, DType::kInt8, ScaleType::kFloat32>>(config);
    return format.b == kE4M3 ? kernel_of<SmallMKernels<kBF16, kE4M3, ScaleType::kFloat32>>(config)
                             : kernel_of<SmallMKernels<kBF16, DType::kInt8, ScaleType::kFloat32>>(config);
  }
  if (format.is_weight_only()) {
    if (format.a == kF16) return kernel_of<SmallMKernels<kF16, kE2M1, ScaleType::kE4M3>>(config);
    if (format.b == kE4M3) return kernel_of<SmallMKernels<kBF16, kE4M3, kE8M0>>(config);
    return format.scale == kE8M0 ? kernel_of<SmallMKernels<kBF16, kE2M1, kE8M0>>(config)
                                 : kernel_of<SmallMKernels<kBF16, kE2M1, ScaleType::kE4M3>>(config);
  }
  if (format.scale == ScaleType::kE4M3) return kernel_of<SmallMKernels<kE2M1, kE2M1, ScaleType::kE4M3>>(config);
  if (format.a == kE4M3)
    return format.b == kE4M3 ? kernel_of<SmallMKernels<kE4M3, kE4M3, kE8M0>>(config)
                             : kernel_of<SmallMKernels<kE4M3, kE2M1, kE8M0>>(config);
  return format.b == kE4M3 ? kernel_of<SmallMKernels<kE2M1, kE4M3, kE8M0>>(config)
                           : kernel_of<SmallMKernels<kE2M1, kE2M1, kE8M0>>(config);
}

// By config `config`, of few rows of a; k may be 0.
void run_small_m(int config, const Problem& problem, const Gpu& gpu, cudaStream_t stream) {
  const SmallMFormat format = format_of(problem);
  const int tile_m = kBlockScaledConfigs[config].tile.tile_m;
  SmallMParams params;
  map_codes(problem.a, problem.m, problem, format.box_bytes_a(), tile_m,
            format.is_weight_only() ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE, params.map_a);
  map_codes(problem.b, problem.n, problem, kSmallMLineBytes, kSmallMTileN, CU_TENSOR_MAP_SWIZZLE_128B, params.map_b);
  params.tiles_n = ceil_divide(problem.n, kSmallMTileN);
  params.blocks = ceil_divide(problem.k, format.stage_k());
  params.splits = small_m_splits(problem, tile_m, gpu);
  params.blocks_per_split = ceil_divide(params.blocks, params.splits);
  params.stages = std::clamp(params.blocks_per_split, 1, small_m_stages(format, tile_m));
  params.scales_in_blocks =
      format.has_float32_scales() ||
      ((format.is_weight_only() || lie_in_blocks(problem.a.scale)) && lie_in_blocks(problem.b.scale));
  params.scales_stages = format.has_float32_scales() && (problem.k == 0 || !is_constant_along_k(problem.b, problem.k));
  params.vector_stores = takes_vector_stores(problem);
  params.problem = scaled_kernel_problem(problem);
  params.global_scale_stride = problem.global_scale_stride;
  const auto tiles = static_cast<unsigned>(ceil_divide(problem.m, tile_m) * params.tiles_n);
  launch(small_m_kernel(config, format), gpu, dim3(tiles, static_cast<unsigned>(params.splits)),
         small_m_threads(tile_m), small_m_shared_bytes(format, tile_m, params.stages), params, stream);
}

// ---- few rows of a, whose kernels read a weight straight into registers ----

template <ScaleType kScale, DType kB>
KernelHandle<DirectWeightParams>& direct_weight_kernel(int config, DType a) {
  return a == kF16 ? kernel_of<DirectWeightKernels<kF16, kB, kScale>>(config)
                   : kernel_of<DirectWeightKernels<kBF16, kB, kScale>>(config);
}

KernelHandle<DirectWeightParams>& direct_weight_kernel(int config, const SmallMFormat& format) {
  if (format.scale == kE8M0 && format.b == kE4M3) return kernel_of<DirectWeightKernels<kBF16, kE4M3, kE8M0>>(config);
  if (format.scale == kE8M0) return direct_weight_kernel<kE8M0, kE2M1>(config, format.a);
  if (format.scale == ScaleType::kE4M3) return direct_weight_kernel<ScaleType::kE4M3, kE2M1>(config, format.a);
  return format.b == kE4M3 ? direct_weight_kernel<ScaleType::kFloat32, kE4M3>(config, format.a)
                           : direct_weight_kernel<ScaleType::kFloat32, DType::kInt8>(config, format.a);
}

void run_direct_weight(int config, const Problem& problem, const Gpu& gpu, cudaStream_t stream) {
  const TileConfig& tile = kBlockScaledConfigs[config].tile;
  const int tiles_n = direct_tiles_n(problem.n, tile.tile_n);
  const int warps = direct_warps(tile, problem, gpu);
  const DirectWeightParams params{scaled_kernel_problem(problem), problem.global_scale_stride, tiles_n,
                                  ceil_divide(problem.k, kDirectChunkK)};
  const auto tiles = static_cast<unsigned>(ceil_divide(problem.m, tile.tile_m) * tiles_n);
  launch(direct_weight_kernel(config, format_of(problem)), gpu, dim3(tiles, 1), warps * 32,
         direct_shared_bytes(tile.tile_m, tile.tile_n, warps), params, stream);
}

// ---- codes with float32 scales, which are multiplied as they are ----

KernelHandle<FactorParams>& scaled_codes_kernel(int config, DType out) {
  const auto of = [&](auto operands) -> KernelHandle<FactorParams>& {
    return out == DType::kBFloat16 ? kernel_of<BlockScaledKernels<operands.value, DType::kBFloat16>>(config)
                                   : kernel_of<BlockScaledKernels<operands.value, DType::kFloat16>>(config);
  };
  switch (kBlockScaledConfigs[config].operands) {
    case Operands::kFp8Rows:
      return of(std::integral_constant<Operands, Operands::kFp8Rows>());
    case Operands::kFp8RowsPromoted:
      return of(std::integral_constant<Operands, Operands::kFp8RowsPromoted>());
    case Operands::kInt8Rows:
      return of(std::integral_constant<Operands, Operands::kInt8Rows>());
    default:
      return of(std::integral_constant<Operands, Operands::kFp8Blocks>());
  }
}

// Few rows of codes under scales of blocks: `config` is of those whose tiles CTAs share.
void run_shared_codes(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  const auto kernels = problem.out_dtype == DType::kBFloat16 ? kernels_of<SharedBlocksKernels<kBF16>>(config)
                                                             : kernels_of<SharedBlocksKernels<kF16>>(config);
  launch_sharing(kernels, kBlockScaledConfigs[config], problem, gpu, scratch, stream, [&](const KernelParams& params) {
    return SharedFactorParams{{params, factors_of(problem.a), factors_of(problem.b), problem.global_scale}};
  });
}

void run_scaled_codes(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  if (shares_tiles(chosen)) return run_shared_codes(config, problem, gpu, scratch, stream);
  const LaunchPlan plan = plan_launch(chosen.operands, chosen.tile, 1, problem, gpu);
  const FactorParams params{plan.params, factors_of(problem.a), factors_of(problem.b), problem.global_scale};
  launch(scaled_codes_kernel(config, problem.out_dtype), gpu, plan.grid(), chosen.tile.threads(), plan.shared_bytes,
         params, stream);
}

// ---- the backend ----

int config_count() { return kBlockScaledConfigCount; }
const char* config_name(int config) { return kBlockScaledConfigs[config].name; }
ConfigFields config_fields(int config) { return fields_of(kBlockScaledConfigs[config]); }
const char* why_not(int config, const Problem& problem, const Gpu& gpu) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  const char* reason = why_not(chosen.operands, problem, gpu);
  const bool has_more = reason == nullptr && chosen.operands == Operands::kDirectWeight;
  return has_more ? why_not_direct_tile(chosen.tile, problem) : reason;
}
bool may_choose(int config, const Problem& problem) {
  return may_choose(kBlockScaledConfigs[config].operands, problem);
}
Choice choose_config(const Problem& problem, const Gpu& gpu) { return choose_block_scaled_once(problem, gpu); }
int64_t scratch_bytes(int config, const Problem& problem, const Gpu& gpu) {
  const KernelConfig& chosen = kBlockScaledConfigs[config];
  if (reads_weight_in_main_loop(chosen.operands)) return main_loop_weight_scratch_bytes(config, problem, gpu);
  if (shares_tiles(chosen)) return shared_bytes(chosen, share_tiles(chosen, problem, gpu.sm_count).stream);
  const bool needs_none = chosen.operands == Operands::kCodes || chosen.operands == Operands::kDirectWeight ||
                          has_float32_scales(chosen.operands);
  return needs_none ? 0 : scratch_of(problem, chosen.operands).bytes;
}

DeviceFlag run(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  auto* memory = static_cast<uint8_t*>(scratch);
  const Operands operands = kBlockScaledConfigs[config].operands;
  if (operands == Operands::kCodes) {
    run_small_m(config, problem, gpu, stream);
    return {};
  }
  if (operands == Operands::kDirectWeight) {
    run_direct_weight(config, problem, gpu, stream);
    return {};
  }
  if (has_float32_scales(operands)) {
    run_scaled_codes(config, problem, gpu, scratch, stream);
    return {};
  }
  if (reads_weight_in_main_loop(operands)) return run_main_loop_weight(config, problem, gpu, scratch, stream);
  const Scratch place = scratch_of(problem, operands);
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
  if (!is_by_encoding(operands)) return run.by_bfloat16(config);
  run.by_encoding(config);
  return {};
}

}  // namespace

const Backend kBlockScaledBackend{.min_capability = 90,
                                  .max_capability = 90,
                                  .config_count = config_count,
                                  .config_name = config_name,
                                  .config_fields = config_fields,
                                  .why_not = why_not,
                                  .may_choose = may_choose,
                                  .choose_config = choose_config,
                                  .wants_copy = nullptr,
                                  .scratch_bytes = scratch_bytes,
                                  .run = run,
                                  .choose_alike = choose_block_scaled_alike_once};

// Most calls allow no fold, and make no key of a remembered choice.
bool is_fold_faster(const Problem& problem, const Gpu& gpu) {
  return may_fold_pay(problem) && fold_pays_once(problem, gpu) != 0;
}

bool are_numbers_faster(const Problem& problem, Format format, const Gpu& gpu) {
  return may_numbers_pay(problem, format) && numbers_pay_once(problem, gpu, static_cast<int>(format)) != 0;
}

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

const char* why_not_prepare_weight(const Problem& problem, const Gpu& gpu) {
  if (gpu.capability != 90) return "it needs a GPU of compute capability 9.0";
  if (problem.k > kPrepareMaxK) return "k is too long";
  return prepare_ctas(problem, segments_of(problem)) >= int64_t{1} << 31 ? "it is too large" : nullptr;
}

int64_t prepare_weight_scratch_bytes(const Problem& problem) {
  return std::max(prepare_ctas(problem, segments_of(problem)), classify_ctas(problem)) * 4;
}

}  // namespace tileon::sm90
