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
    for (int row = 0; row < kFloat32RowCount; ++row) kernels_[row].function = find_float32(row);
  }

  Kernel<KernelParams>& at(int row) { return kernels_[row]; }

 private:
  std::array<Kernel<KernelParams>, kFloat32RowCount> kernels_;
};

}  // namespace

Condition run_float32(int row, const GemmProblem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream) {
  static Kernels kernels;
  const Row& this_row = kFloat32Rows[row];
  const Condition lost = run_decompose(problem, gpu.sm_count, scratch, stream);
  const LaunchPlan plan = plan_launch(this_row, decomposed_problem(problem, scratch), gpu, {.planes = true});
  const dim3 grid(static_cast<unsigned>(plan.clusters), static_cast<unsigned>(this_row.splits));
  launch(kernels.at(row), grid, this_row.tile.threads(), plan.shared_bytes, plan.params, stream);
  return lost;
}

}  // namespace tileon::sm90
