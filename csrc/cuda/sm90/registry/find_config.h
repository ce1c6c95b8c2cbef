// From a row's number at run time to what was instantiated for it.
#pragma once

#include <type_traits>
#include <utility>

#include "cuda/runtime/launch.h"
#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

template <typename KernelOfConfig, int... kRow>
KernelFunction<KernelParams> find_config(int row, const KernelOfConfig& kernel_of_config,
                                         std::integer_sequence<int, kRow...>) {
  KernelFunction<KernelParams> found = nullptr;
  static_cast<void>(((row == kRow && (found = kernel_of_config(std::integral_constant<int, kRow>()), true)) || ...));
  return found;
}

// `kernel_of_config` takes the number as a constant; it gives null where it has no kernel of that row.
template <typename KernelOfConfig>
KernelFunction<KernelParams> find_config(int row, const KernelOfConfig& kernel_of_config) {
  return find_config(row, kernel_of_config, std::make_integer_sequence<int, kDenseConfigCount>());
}

}  // namespace tileon::sm90
