#include "sm90.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "../error.h"
#include "../shared_memory_attribute.h"
#include "choice.h"
#include "params.h"
#include "rows.h"

namespace tileon::sm90 {
namespace {

constexpr int kMajorPairs = 4;
constexpr int major_pair(Major a, Major b) { return static_cast<int>(a) * 2 + static_cast<int>(b); }

// A kernel, and on which devices it may have its shared memory already (a bit a device).
struct Kernel {
  const void* function = nullptr;
  std::atomic<uint64_t> allowed{0};
};

template <typename Element, Major kMajorA, Major kMajorB>
const void* find_kernel(int row) {
  return persistent(kRows[row].tile) ? find_gemm<Element, kMajorA, kMajorB>(row)
                                     : find_split_k<Element, kMajorA, kMajorB>(row);
}

class Kernels {
 public:
  Kernels() {
    for (int row = 0; row < kRowCount; ++row) {
      add<__half>(DType::kFloat16, row);
      add<__nv_bfloat16>(DType::kBFloat16, row);
    }
  }

  Kernel& at(DType dtype, int row, Major a, Major b) {
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

  std::array<std::array<std::array<Kernel, kMajorPairs>, kRowCount>, 2> kernels_;
};

Kernel& kernel_of(DType dtype, int row, Major a, Major b) {
  static Kernels kernels;
  return kernels.at(dtype, row, a, b);
}

bool use_dependent_launch() {
  static const bool use = [] {
    const char* setting = std::getenv("TILEON_PDL");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return use;
}

// The one place that launches. The kernel may start while the one before it in the stream still runs: all of them wait
// for it before they touch memory.
void launch(Kernel& kernel, dim3 grid, int threads, int shared_bytes, void* params, cudaStream_t stream) {
  allow_shared_memory(kernel.function, kSmemLimit, kernel.allowed);
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (grid.y > 1) {  // a column of the grid is a cluster
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {1, grid.y, 1};
  }
  if (use_dependent_launch()) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  void* arguments[] = {params};
  check_cuda(cudaLaunchKernelExC(&config, kernel.function, arguments), "launching a Hopper kernel");
}

}  // namespace

int row_count() { return kRowCount; }
const char* row_name(int row) { return kRows[row].name; }
std::string row_dtypes(int) { return "float16,bfloat16"; }
const char* why_not(int, const GemmProblem& problem, const Gpu& gpu) { return sm90::why_not(problem, gpu); }
int choose_row(const GemmProblem& problem, const Gpu& gpu) { return choose(problem, gpu); }

bool copy_pays(const Operand& operand, int64_t mn, const GemmProblem& problem, const Gpu& gpu) {
  const bool ours = problem.dtype == DType::kFloat16 || problem.dtype == DType::kBFloat16;
  return ours && gpu.capability == 90 && !tma_access(operand, problem.batch, mn, problem.k, kElementBytes).readable &&
         problem.products() >= kCopyPaysFrom;
}

void run(int row, const GemmProblem& problem, const Gpu& gpu, cudaStream_t stream) {
  LaunchPlan plan = plan_launch(kRows[row], problem, gpu);
  Kernel& kernel = kernel_of(problem.dtype, row, plan.major_a, plan.major_b);
  const dim3 grid(static_cast<unsigned>(plan.clusters), static_cast<unsigned>(kRows[row].splits));
  launch(kernel, grid, kRows[row].tile.threads(), plan.shared_bytes, &plan.params, stream);
}

}  // namespace tileon::sm90
