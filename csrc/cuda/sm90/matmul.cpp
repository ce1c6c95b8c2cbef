// matmul's backend: dense products of 16 bits, fp8 and float32.
#include <cstdio>
#include <string>
#include <vector>

#include "cuda/sm90/heuristics/recent_choices.h"
#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/launch/launch_sharing.h"
#include "cuda/sm90/operand_prep/prepare.h"
#include "cuda/sm90/registry/fields.h"
#include "cuda/sm90/sm90.h"

namespace tileon::sm90 {
namespace {

// The tables stand one behind the other.
constexpr int kStreamedBegin = kDenseConfigCount, kFp8Begin = kStreamedBegin + kStreamedConfigCount;
constexpr int kBf16x6Begin = kFp8Begin + kFp8ConfigCount;
constexpr int kTf32Begin = kBf16x6Begin + kBf16x6ConfigCount;
constexpr bool is_streamed(int config) { return config >= kStreamedBegin && config < kFp8Begin; }
const KernelConfig& config_at(int config) {
  if (config >= kTf32Begin) return kTf32Configs[config - kTf32Begin];
  if (config >= kBf16x6Begin) return kBf16x6Configs[config - kBf16x6Begin];
  if (config >= kFp8Begin) return kFp8Configs[config - kFp8Begin];
  return is_streamed(config) ? kStreamedConfigs[config - kStreamedBegin] : kDenseConfigs[config];
}

int config_count() { return kTf32Begin + kTf32ConfigCount; }
const char* config_name(int config) { return config_at(config).name; }
ConfigFields config_fields(int config) { return fields_of(config_at(config)); }
const char* why_not(int config, const Problem& problem, const Gpu& gpu) {
  if (config >= kTf32Begin) return why_not_tf32(config_at(config).tile, problem, gpu);
  return why_not(config_at(config).operands, problem, gpu);
}
bool may_choose(int config, const Problem& problem) {
  return config_at(config).operands != Operands::kFp8 || problem.fast_accum;
}
Choice choose_config(const Problem& problem, const Gpu& gpu) {
  const auto behind = [](int begin, Choice choice) {
    if (choice.config >= 0) choice.config += begin;
    return choice;
  };
  if (problem.a.dtype == DType::kFloat32)
    return problem.allow_tf32 ? behind(kTf32Begin, choose_tf32_once(problem, gpu))
                              : behind(kBf16x6Begin, choose_bf16x6_once(problem, gpu));
  if (is_float8(problem.a.dtype)) return behind(kFp8Begin, choose_fp8_once(problem, gpu));
  return choose_dense_once(problem, gpu);
}

int choose_alike(const Problem& problem, const Gpu& gpu, int config) {
  const auto behind = [&](int begin, auto choose) {
    const int chosen = choose(problem, gpu, config - begin);
    return chosen < 0 ? chosen : begin + chosen;
  };
  if (config >= kTf32Begin) return behind(kTf32Begin, choose_tf32_alike_once);
  if (config >= kBf16x6Begin) return behind(kBf16x6Begin, choose_bf16x6_alike_once);
  if (config >= kFp8Begin) return behind(kFp8Begin, choose_fp8_alike_once);
  return choose_dense_alike_once(problem, gpu, is_streamed(config) ? config_at(config).like : config);
}

// Of fp8, wgmma reads rows along k alone; of tf32, one of two operands.
WantedCopy wants_copy(Side side, const Problem& problem) {
  const DType dtype = problem.a.dtype;
  const bool is_a = side == Side::kA;
  if (dtype == DType::kFloat32 && problem.allow_tf32) {
    const Tf32Copies copies = tf32_copies(problem);
    return (is_a ? copies.a : copies.b) ? WantedCopy::kAlongK : WantedCopy::kNone;
  }
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64) return WantedCopy::kNone;
  const TmaAccess access = tma_access(is_a ? problem.a : problem.b, problem.batch, is_a ? problem.m : problem.n,
                                      problem.k, info(dtype).bytes);
  if (is_float8(dtype)) return access.reads_along_k() ? WantedCopy::kNone : WantedCopy::kAlongK;
  return access.readable ? WantedCopy::kNone : WantedCopy::kAsItLies;
}

int64_t scratch_bytes(int config, const Problem& problem, const Gpu& gpu) {
  if (is_streamed(config)) {
    const KernelConfig& chosen = config_at(config);
    return shared_bytes(chosen, share_tiles(chosen, problem, gpu.sm_count).stream);
  }
  return config >= kBf16x6Begin && config < kTf32Begin ? Bf16x3Scratch(problem).bytes : 0;
}

using Handle = KernelHandle<KernelParams>;

template <template <DType, Major, Major> typename Kernels, DType kDType>
auto& kernel_of_majors(int config, Major a, Major b) {
  if (a == Major::kK) {
    return b == Major::kK ? kernel_of<Kernels<kDType, Major::kK, Major::kK>>(config)
                          : kernel_of<Kernels<kDType, Major::kK, Major::kMn>>(config);
  }
  return b == Major::kK ? kernel_of<Kernels<kDType, Major::kMn, Major::kK>>(config)
                        : kernel_of<Kernels<kDType, Major::kMn, Major::kMn>>(config);
}

// Of 16 bits.
template <template <DType, Major, Major> typename Kernels>
auto& kernel_of_operands(int config, const Problem& problem, Major a, Major b) {
  return problem.a.dtype == DType::kFloat16 ? kernel_of_majors<Kernels, DType::kFloat16>(config, a, b)
                                            : kernel_of_majors<Kernels, DType::kBFloat16>(config, a, b);
}

// Outputs that TMA cannot store are stored by the kernels of either dtype.
template <DType kA, DType kB>
Handle& fp8_kernel(int config, DType out) {
  return out == DType::kBFloat16 ? kernel_of<Fp8Kernels<kA, kB, DType::kBFloat16>>(config)
                                 : kernel_of<Fp8Kernels<kA, kB, DType::kFloat16>>(config);
}

Handle& fp8_kernel(int config, DType a, DType b, DType out) {
  if (a == kE4M3) return b == kE4M3 ? fp8_kernel<kE4M3, kE4M3>(config, out) : fp8_kernel<kE4M3, kE5M2>(config, out);
  return b == kE4M3 ? fp8_kernel<kE5M2, kE4M3>(config, out) : fp8_kernel<kE5M2, kE5M2>(config, out);
}

Handle& tf32_kernel(int config, Major a, Major b) {
  if (a == Major::kMn) return kernel_of<Tf32Kernels<Major::kMn, Major::kK>>(config);
  return b == Major::kMn ? kernel_of<Tf32Kernels<Major::kK, Major::kMn>>(config)
                         : kernel_of<Tf32Kernels<Major::kK, Major::kK>>(config);
}

DeviceFlag run(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  const KernelConfig& chosen = config_at(config);
  const auto plan = [&](const Problem& as_read) {
    return plan_launch(chosen.operands, chosen.tile, chosen.splits, as_read, gpu);
  };
  const auto launch_as = [&](const LaunchPlan& planned, Handle& kernel) {
    launch(kernel, gpu, planned.grid(), chosen.tile.threads(), planned.shared_bytes, planned.params, stream);
  };
  if (config >= kTf32Begin) {
    const LaunchPlan planned = plan(problem);
    launch_as(planned, tf32_kernel(config - kTf32Begin, planned.major_a, planned.major_b));
    return {};
  }
  if (config >= kBf16x6Begin) {
    const DeviceFlag lost = run_split_float32(problem, gpu.sm_count, scratch, stream);
    launch_as(plan(bf16x3_problem(problem, scratch)), kernel_of<Bf16x6Kernels>(config - kBf16x6Begin));
    return lost;
  }
  if (config >= kFp8Begin) {
    launch_as(plan(problem), fp8_kernel(config - kFp8Begin, problem.a.dtype, problem.b.dtype, problem.out_dtype));
    return {};
  }
  if (is_streamed(config)) {
    const TmaAccesses access(problem, kElementBytes);
    auto& kernel =
        kernel_of_operands<StreamedKernels>(config - kStreamedBegin, problem, access.a.major, access.b.major);
    launch_sharing(SharingKernels<SharedParams>{kernel}, chosen, problem, gpu, scratch, stream,
                   [](const KernelParams& params) { return SharedParams{params, {}, {}}; });
    return {};
  }
  const LaunchPlan planned = plan(problem);
  launch_as(planned, kernel_of_operands<DenseKernels>(config, problem, planned.major_a, planned.major_b));
  return {};
}

// A line for each config of 16 bits that the choice weighs: name, nanoseconds, and the parts of these nanoseconds.
std::string explain_costs(const Problem& problem, const Gpu& gpu) {
  std::string lines;
  std::vector<Candidate> candidates = explain(problem, gpu), streamed = explain_streamed(problem, gpu);
  candidates.insert(candidates.end(), streamed.begin(), streamed.end());
  for (const Candidate& each : candidates) {
    char line[200];
    std::snprintf(line, sizeof(line), "%s %.0f start=%.0f compute=%.0f memory=%.0f delivery=%.0f l2=%.0f waves=%.2f\n",
                  each.name, each.ns, each.start, each.compute, each.memory, each.delivery, each.l2, each.waves);
    lines += line;
  }
  return lines;
}

}  // namespace

const Backend kDenseBackend{.min_capability = 90,
                            .max_capability = 90,
                            .config_count = config_count,
                            .config_name = config_name,
                            .config_fields = config_fields,
                            .why_not = why_not,
                            .may_choose = may_choose,
                            .choose_config = choose_config,
                            .wants_copy = wants_copy,
                            .scratch_bytes = scratch_bytes,
                            .run = run,
                            .explain = explain_costs,
                            .choose_alike = choose_alike};

}  // namespace tileon::sm90
