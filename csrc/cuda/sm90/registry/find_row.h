// From a row's number at run time to what was instantiated for it.
#pragma once

#include <type_traits>
#include <utility>

#include "cuda/runtime/launch.h"
#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

template <typename KernelOfRow, int... kRow>
KernelFunction<KernelParams> find_row(int row, const KernelOfRow& kernel_of_row, std::integer_sequence<int, kRow...>) {
  KernelFunction<KernelParams> found = nullptr;
  static_cast<void>(((row == kRow && (found = kernel_of_row(std::integral_constant<int, kRow>()), true)) || ...));
  return found;
}

// `kernel_of_row` takes the number as a constant; it gives null where it has no kernel of that row.
template <typename KernelOfRow>
KernelFunction<KernelParams> find_row(int row, const KernelOfRow& kernel_of_row) {
  return find_row(row, kernel_of_row, std::make_integer_sequence<int, kRowCount>());
}

}  // namespace tileon::sm90
