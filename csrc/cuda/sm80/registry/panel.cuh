// Which instance of a kernel on panels runs: the row's, for the access that each operand allows.
#pragma once

#include <utility>

#include "cuda/sm80/launch/launch.cuh"
#include "cuda/sm80/loaders/operand_panel.cuh"
#include "cuda/sm80/registry/dense.h"

namespace tileon::sm80 {

template <int kRow, Family kFamily, template <TileConfig, PanelAccess, PanelAccess> class Launch>
bool launch_panels_if(int row, const Problem& problem, cudaStream_t stream) {
  constexpr TileConfig config = kRows[kRow].tile;
  if constexpr (config.family == kFamily) {
    if (row != kRow) return false;
    constexpr auto along_k = PanelAccess::kVectorsAlongK;
    constexpr auto along_mn = PanelAccess::kVectorsAlongMn;
    constexpr auto elements = PanelAccess::kElements;
    const PanelAccess a = panel_access(problem.a, problem, problem.m);
    const PanelAccess b = panel_access(problem.b, problem, problem.n);
    if (a == elements || b == elements) {  // rare enough to share one instance, which reads anything
      Launch<config, elements, elements>::run(problem, stream);
    } else if (a == along_k) {
      b == along_k ? Launch<config, along_k, along_k>::run(problem, stream)
                   : Launch<config, along_k, along_mn>::run(problem, stream);
    } else {
      b == along_k ? Launch<config, along_mn, along_k>::run(problem, stream)
                   : Launch<config, along_mn, along_mn>::run(problem, stream);
    }
    return true;
  }
  return false;
}

template <Family kFamily, template <TileConfig, PanelAccess, PanelAccess> class Launch, int... kRow>
bool launch_panels_one_of(std::integer_sequence<int, kRow...>, int row, const Problem& problem, cudaStream_t stream) {
  return (launch_panels_if<kRow, kFamily, Launch>(row, problem, stream) || ...);
}

// Launches row `row` where it belongs to the family; false where it does not.
template <Family kFamily, template <TileConfig, PanelAccess, PanelAccess> class Launch>
bool run_panel_rows(int row, const Problem& problem, cudaStream_t stream) {
  return launch_panels_one_of<kFamily, Launch>(std::make_integer_sequence<int, kDenseConfigCount>(), row, problem,
                                               stream);
}

}  // namespace tileon::sm80
