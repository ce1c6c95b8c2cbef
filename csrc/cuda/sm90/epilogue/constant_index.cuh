// Registers take constant indices only.
#pragma once

#include <type_traits>

namespace tileon::sm90 {

// Calls `use` with `index`, from kBegin to before kEnd, as a std::integral_constant: by branches that are the same in
// all lanes, of which there are as many as the count has binary digits.
template <int kBegin, int kEnd, typename Use>
__device__ __forceinline__ void with_constant(int index, const Use& use) {
  static_assert(kBegin < kEnd);
  if constexpr (kBegin + 1 == kEnd) {
    use(std::integral_constant<int, kBegin>());
  } else {
    constexpr int middle = (kBegin + kEnd) / 2;
    if (index < middle) {
      with_constant<kBegin, middle>(index, use);
    } else {
      with_constant<middle, kEnd>(index, use);
    }
  }
}

}  // namespace tileon::sm90
