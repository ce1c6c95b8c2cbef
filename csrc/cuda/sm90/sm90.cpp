#include "cuda/sm90/sm90.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>

#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/heuristics/fp8.h"
#include "cuda/sm90/heuristics/recent_choices.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/launch/params.h"
#include "cuda/sm90/registry/dense.h"
#include "cuda/sm90/run.h"

namespace tileon::sm90 {
namespace {

constexpr int kMajorPairs = 4;
constexpr int major_pair(Major a, Major b) { return static_cast<int>(a) * 2 + static_cast<int>(b); }

template <typename Element, Major kMajorA, Major kMajorB>
KernelFunction<KernelParams> find_kernel(int row) {
  return persistent(kRows[row].tile) ? find_gemm<Element, kMajorA, kMajorB>(row)
                                     : find_split_k<Element, kMajorA, kMajorB>(row);
}

class Kernels {
 public:
  Kernels() {
    for (int row = 0; row < kDenseConfigCount; ++row) {
      add<__half>(DType::kFloat16, row);
      add<__nv_bfloat16>(DType::kBFloat16, row);
    }
  }

  Kernel<KernelParams>& at(DType dtype, int row, Major a, Major b) {
    return kernels_[dtype == DType::kBFloat16][row][major_pair(a, b)];
  }

 private:
  template <typename Element>
  void add(DType dtype, int row) {
    at(dtype, row, Major::kK, Major::kK).function = find_kernel<Element, Major::kK, Major::kK>(row);
    at(dtype, row, Major::kK, Major::kMn).function = find_kernel<Element, Major::kK, Major::kMn>(row);
    at(dtype, row, Major::kMn, Major::kK).function = find_kernel<Element, Major::kMn, Major::kK>(row);
    at(dtype, row, Major::kMn, Major::kMn).function = find_kernel<Element, Major::kMn, Major::kMn>(row);
  }

  std::array<std::array<std::array<Kernel<KernelParams>, kMajorPairs>, kDenseConfigCount>, 2> kernels_;
};

Kernel<KernelParams>& kernel_of(DType dtype, int row, Major a, Major b) {
  static Kernels kernels;
  return kernels.at(dtype, row, a, b);
}

// The fp8 rows follow those of kRows, and those of float32 follow them.
constexpr int kFloat8Begin = kDenseConfigCount;
constexpr int kFloat32Begin = kFloat8Begin + kFp8ConfigCount;
int config_count() { return kFloat32Begin + kBf16x6ConfigCount; }

const char* config_name(int row) {
  if (row >= kFloat32Begin) return kBf16x6Configs[row - kFloat32Begin].name;
  return row >= kFloat8Begin ? kFp8Configs[row - kFloat8Begin].row.name : kRows[row].name;
}
std::string config_dtypes(int row) {
  if (row >= kFloat32Begin) return "float32";
  return row >= kFloat8Begin ? "float8_e4m3fn,float8_e4m3fn*float8_e5m2,float8_e5m2*float8_e4m3fn,float8_e5m2"
                             : "float16,bfloat16";
}
const char* why_not(int row, const Problem& problem, const Gpu& gpu) {
  if (row >= kFloat32Begin) return why_not_float32(problem, gpu);
  return row >= kFloat8Begin ? why_not_float8(problem, gpu) : sm90::why_not(problem, gpu);
}
bool may_choose(int row, const Problem& problem) {
  const bool is_float8 = row >= kFloat8Begin && row < kFloat32Begin;
  return !is_float8 || kFp8Configs[row - kFloat8Begin].promoted || problem.fast_accum;
}
int choose_config(const Problem& problem, const Gpu& gpu) {
  const auto behind = [](int begin, int row) { return row < 0 ? row : begin + row; };
  if (problem.a.dtype == DType::kFloat32) return behind(kFloat32Begin, choose_float32(problem, gpu));
  if (is_float8(problem.a.dtype)) return behind(kFloat8Begin, choose_float8(problem, gpu));
  return choose_once(problem, gpu);
}

bool wants_copy(const Operand& operand, int64_t mn, const Problem& problem) {
  const bool ours = problem.a.dtype == DType::kFloat16 || problem.a.dtype == DType::kBFloat16;
  if (is_float8(problem.a.dtype)) return !is_k_major(operand, problem, mn);
  return ours && !tma_access(operand, problem.batch, mn, problem.k, kElementBytes).readable;
}

int64_t scratch_bytes(int row, const Problem& problem) {
  return row >= kFloat32Begin ? Bf16x3Scratch(problem).bytes : 0;
}

DeviceFlag run(int row, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  if (row >= kFloat32Begin) return run_float32(row - kFloat32Begin, problem, gpu, scratch, stream);
  if (row >= kFloat8Begin) {
    run_float8(row - kFloat8Begin, problem, gpu, stream);
    return {};
  }
  const LaunchPlan plan = plan_launch(kRows[row], problem, gpu, {.dense_16_bit = true});
  Kernel<KernelParams>& kernel = kernel_of(problem.a.dtype, row, plan.major_a, plan.major_b);
  const dim3 grid(static_cast<unsigned>(plan.clusters), static_cast<unsigned>(kRows[row].splits));
  launch(kernel, grid, kRows[row].tile.threads(), plan.shared_bytes, plan.params, stream);
  return {};
}

}  // namespace

const Backend kDenseBackend{90,      90,         config_count,  config_name, config_dtypes, nullptr,
                            why_not, may_choose, choose_config, wants_copy,  scratch_bytes, run};

}  // namespace tileon::sm90
