// Every float64 row of the table.
#include "cuda/sm80/dmma/kernel.cuh"
#include "cuda/sm80/registry/panel.cuh"

namespace tileon::sm80 {
namespace {

template <TileConfig kConfig, PanelAccess kAccessA, PanelAccess kAccessB>
struct DmmaLaunch {
  static void run(const Problem& problem, cudaStream_t stream) {
    using Kernel = DmmaKernel<kConfig, kAccessA, kAccessB>;
    launch<&gemm_dmma<Kernel>, kConfig, Kernel::shared_bytes>(problem, stream);
  }
};

}  // namespace

bool run_dmma(int row, const Problem& problem, cudaStream_t stream) {
  return run_panel_rows<Family::kDmma, DmmaLaunch>(row, problem, stream);
}

}  // namespace tileon::sm80
