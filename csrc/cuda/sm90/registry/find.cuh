// From a config's number at run time to what was instantiated for it.
#pragma once

#include <utility>

#include "cuda/sm90/registry/registry.h"

namespace tileon::sm90 {

// `kernel_function<kNumber>(Set())` is the kernel of config kNumber: registry/gemm.cuh and registry/small_m.cuh have
// one for each set.
template <typename Set>
KernelFunction<typename Set::Params> find_kernel(int config) {
  return [&]<int... kNumber>(std::integer_sequence<int, kNumber...>) {
    KernelFunction<typename Set::Params> found = nullptr;
    static_cast<void>(((config == kNumber && (found = kernel_function<kNumber>(Set()), true)) || ...));
    return found;
  }
  (std::make_integer_sequence<int, Set::kConfigCount>());
}

}  // namespace tileon::sm90
