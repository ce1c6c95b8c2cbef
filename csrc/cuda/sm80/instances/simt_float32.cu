// Every SIMT row of the table.
#include "cuda/sm80/registry/panel.cuh"
#include "cuda/sm80/simt/kernel.cuh"

namespace tileon::sm80 {
namespace {

template <TileConfig kConfig, PanelAccess kAccessA, PanelAccess kAccessB>
struct SimtLaunch {
  static void run(const Problem& problem, cudaStream_t stream) {
    using Kernel = SimtKernel<kConfig, kAccessA, kAccessB>;
    launch<&gemm_simt<Kernel>, kConfig, Kernel::shared_bytes>(problem, stream);
  }
};

}  // namespace

bool run_simt(int row, const Problem& problem, cudaStream_t stream) {
  return run_panel_rows<Family::kSimt, SimtLaunch>(row, problem, stream);
}

}  // namespace tileon::sm80
