#include "cuda/sm90/run.h"

#include <array>

#include "cuda/sm90/heuristics/bf16x6.h"
#include "cuda/sm90/launch/launch.h"
#include "cuda/sm90/launch/params.h"
#include "cuda/sm90/operand_prep/split_float32.h"
#include "cuda/sm90/registry/bf16x6.h"

namespace tileon::sm90 {
namespace {

class Kernels {
 public:
  Kernels() {
    for (int row = 0; row < kBf16x6ConfigCount; ++row) kernels_[row].function = find_float32(row);
  }

  Kernel<KernelParams>& at(int row) { return kernels_[row]; }

 private:
  std::array<Kernel<KernelParams>, kBf16x6ConfigCount> kernels_;
};

}  // namespace

DeviceFlag run_float32(int row, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  static Kernels kernels;
  const Row& this_row = kBf16x6Configs[row];
  const DeviceFlag lost = run_split_float32(problem, gpu.sm_count, scratch, stream);
  const LaunchPlan plan = plan_launch(this_row, bf16x3_problem(problem, scratch), gpu, {.planes = true});
  const dim3 grid(static_cast<unsigned>(plan.clusters), static_cast<unsigned>(this_row.splits));
  launch(kernels.at(row), grid, this_row.tile.threads(), plan.shared_bytes, plan.params, stream);
  return lost;
}

}  // namespace tileon::sm90
