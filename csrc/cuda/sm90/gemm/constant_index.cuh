// Registers take constant indices only.
#pragma once

#include <type_traits>
#include <utility>

namespace tileon::sm90 {

// Calls `use` with `index`, one of kCount, as a std::integral_constant: by a branch that is the same in all lanes.
template <int kCount, typename Use>
__device__ __forceinline__ void with_constant(int index, const Use& use) {
  const auto use_if_it_is = [&]<int kIndex>(std::integral_constant<int, kIndex> constant) {
    if (kIndex == index) use(constant);
  };
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (use_if_it_is(std::integral_constant<int, kIndex>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

}  // namespace tileon::sm90
