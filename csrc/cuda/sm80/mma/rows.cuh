// Every tensor-core row of the table, for one dtype and one pair of majors.
#pragma once

#include <utility>

#include "../launch.cuh"
#include "../rows.h"
#include "kernel.cuh"

namespace tileon::sm80 {

template <typename Element>
constexpr Kind kind_of_element() {
  if (sizeof(Element) == 4) return Kind::kTf32;
  return std::is_same_v<Element, __half> ? Kind::kFloat16 : Kind::kBFloat16;
}

template <int kRow, typename Element, Major kMajorA, Major kMajorB>
bool launch_if(int row, const GemmProblem& problem, cudaStream_t stream) {
  constexpr Row entry = kRows[kRow];
  // the gather kernel reads both operands through their strides: one instance serves all majors
  constexpr bool exists = (entry.kinds & bit(kind_of_element<Element>())) != 0 &&
                          (entry.tile.family == Family::kMma ||
                           (entry.tile.family == Family::kMmaGather && kMajorA == Major::kK && kMajorB == Major::kK));
  if constexpr (exists) {
    if (row != kRow) return false;
    using Kernel = MmaKernel<entry.tile, Element, kMajorA, kMajorB>;
    launch<&gemm_mma<Kernel>, entry.tile, Kernel::shared_bytes>(problem, stream);
    return true;
  }
  return false;
}

template <typename Element, Major kMajorA, Major kMajorB, int... kRow>
bool launch_one_of(std::integer_sequence<int, kRow...>, int row, const GemmProblem& problem, cudaStream_t stream) {
  return (launch_if<kRow, Element, kMajorA, kMajorB>(row, problem, stream) || ...);
}

template <typename Element, Major kMajorA, Major kMajorB>
bool run_mma(int row, const GemmProblem& problem, cudaStream_t stream) {
  return launch_one_of<Element, kMajorA, kMajorB>(std::make_integer_sequence<int, kRowCount>(), row, problem, stream);
}

}  // namespace tileon::sm80
