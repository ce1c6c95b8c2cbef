// Which instance of a kernel on panels runs: the row's, for the access that each operand allows.
#pragma once

#include <utility>

#include "launch.cuh"
#include "operand_panel.cuh"
#include "rows.h"

namespace tileon::sm80 {

template <int kRow, Family kFamily, template <TileConfig, PanelAccess, PanelAccess> class Launch>
bool launch_panels_if(int row, const GemmProblem& problem, cudaStream_t stream) {
  constexpr TileConfig config = kRows[kRow].tile;
  if constexpr (config.family == kFamily) {
    if (row != kRow) return false;
    constexpr auto vectors = PanelAccess::kVectorsAlongMn;
    constexpr auto elements = PanelAccess::kElements;
    const bool vectors_a = panel_access(problem.a, problem, problem.m) == vectors;
    const bool vectors_b = panel_access(problem.b, problem, problem.n) == vectors;
    if (vectors_a && vectors_b) {
      Launch<config, vectors, vectors>::run(problem, stream);
    } else if (vectors_a) {
      Launch<config, vectors, elements>::run(problem, stream);
    } else if (vectors_b) {
      Launch<config, elements, vectors>::run(problem, stream);
    } else {
      Launch<config, elements, elements>::run(problem, stream);
    }
    return true;
  }
  return false;
}

template <Family kFamily, template <TileConfig, PanelAccess, PanelAccess> class Launch, int... kRow>
bool launch_panels_one_of(std::integer_sequence<int, kRow...>, int row, const GemmProblem& problem,
                          cudaStream_t stream) {
  return (launch_panels_if<kRow, kFamily, Launch>(row, problem, stream) || ...);
}

// Launches row `row` where it belongs to the family; false where it does not.
template <Family kFamily, template <TileConfig, PanelAccess, PanelAccess> class Launch>
bool run_panel_rows(int row, const GemmProblem& problem, cudaStream_t stream) {
  return launch_panels_one_of<kFamily, Launch>(std::make_integer_sequence<int, kRowCount>(), row, problem, stream);
}

}  // namespace tileon::sm80
