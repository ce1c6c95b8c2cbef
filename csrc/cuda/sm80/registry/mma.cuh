// Every tensor-core row of the table, for one pair of dtypes and one of majors.
#pragma once

#include <type_traits>
#include <utility>

#include "cuda/sm80/launch/launch.cuh"
#include "cuda/sm80/mma/kernel.cuh"
#include "cuda/sm80/registry/dense.h"

namespace tileon::sm80 {

// Bits of Kind.
template <typename ElementA, typename ElementB>
constexpr int kinds_of_elements() {
  if (std::is_same_v<ElementA, AnyFloat8>) return k8;
  if (std::is_same_v<ElementA, __nv_fp8_e4m3>)
    return bit(std::is_same_v<ElementB, __nv_fp8_e4m3> ? Kind::kE4M3 : Kind::kE4M3E5M2);
  if (std::is_same_v<ElementA, __nv_fp8_e5m2>)
    return bit(std::is_same_v<ElementB, __nv_fp8_e4m3> ? Kind::kE5M2E4M3 : Kind::kE5M2);
  if (std::is_same_v<ElementA, float>) return bit(Kind::kTf32);
  return bit(std::is_same_v<ElementA, __half> ? Kind::kFloat16 : Kind::kBFloat16);
}

// Whether a row has a kernel for these elements and majors. The gather kernel reads both operands through their
// strides: one instance serves all majors; and one all fp8 operands.
template <typename ElementA, typename ElementB>
constexpr bool exists(const Row& row, Major a, Major b) {
  constexpr bool any_float8 = std::is_same_v<ElementA, AnyFloat8>;
  if ((row.kinds & kinds_of_elements<ElementA, ElementB>()) == 0) return false;
  if (row.tile.family == Family::kMma) return !any_float8;
  return row.tile.family == Family::kMmaGather && a == Major::kK && b == Major::kK &&
         (any_float8 || sizeof(ElementA) > 1);
}

template <int kRow, typename ElementA, Major kMajorA, Major kMajorB, typename ElementB>
bool launch_if(int row, const Problem& problem, cudaStream_t stream) {
  constexpr Row entry = kRows[kRow];
  if constexpr (exists<ElementA, ElementB>(entry, kMajorA, kMajorB)) {
    if (row != kRow) return false;
    using Kernel = MmaKernel<entry.tile, ElementA, kMajorA, kMajorB, ElementB>;
    launch<&gemm_mma<Kernel>, entry.tile, Kernel::shared_bytes>(problem, stream);
    return true;
  }
  return false;
}

template <typename ElementA, Major kMajorA, Major kMajorB, typename ElementB, int... kRow>
bool launch_one_of(std::integer_sequence<int, kRow...>, int row, const Problem& problem, cudaStream_t stream) {
  return (launch_if<kRow, ElementA, kMajorA, kMajorB, ElementB>(row, problem, stream) || ...);
}

template <typename ElementA, Major kMajorA, Major kMajorB, typename ElementB>
bool run_mma(int row, const Problem& problem, cudaStream_t stream) {
  constexpr auto rows = std::make_integer_sequence<int, kDenseConfigCount>();
  return launch_one_of<ElementA, kMajorA, kMajorB, ElementB>(rows, row, problem, stream);
}

}  // namespace tileon::sm80
