// From a problem's values to one kernel: what the choice needs to know of a GPU, how operands and output lie in memory,
// the cheapest config of a table, and the template argument that a value at run time stands for. Any C++ compiler takes
// it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/problem.h"

namespace tileon {

// What the choice of a kernel needs to know of a GPU.
struct Gpu {
  int capability;  // major * 10 + minor
  int sm_count;
  int shared_bytes_per_block;  // at most shared_limit(capability)
  int image = capability;      // what its image of the portable kernels was compiled for: less, where that is PTX
};

// The most shared memory that one CTA may have on a GPU of this capability. Kernels that need more are left empty in
// its image; 8.7 has 163 KB, but runs the image of 8.6.
constexpr int shared_limit(int capability) {
  return (capability == 80 ? 163 : capability >= 90 && capability < 120 ? 227 : 99) * 1024;
}

// The dimension along which an operand's elements are adjacent.
enum class Major : int8_t {
  kK,   // row-major a, or b as the transposed view of a contiguous (n, k)
  kMn,  // row-major b, or a as the transposed view of a contiguous (k, m)
};

// Whether every output element whose column is a multiple of `columns` is aligned for a store of that many elements.
inline bool takes_vector_stores(const Problem& problem, int columns = 4) {
  const int64_t bytes = columns * info(problem.out_dtype).bytes;
  const int64_t element = info(problem.out_dtype).bytes;
  return (problem.out.stride_n == 1 || problem.n <= 1) && problem.out.stride_m * element % bytes == 0 &&
         (problem.batch <= 1 || problem.out.stride_batch * element % bytes == 0) &&
         static_cast<int64_t>(reinterpret_cast<uintptr_t>(problem.out.data)) % bytes == 0;
}

// The index of the config that is expected to be fastest; -1 where none may run. `ns(config)` is asked only of configs
// for which `runs(config)` holds.
template <typename Config, int kCount, typename Runs, typename Ns>
int cheapest(const Config (&configs)[kCount], const Runs& runs, const Ns& ns) {
  int best = -1;
  double best_ns = 0;
  for (int i = 0; i < kCount; ++i) {
    if (!runs(configs[i])) continue;
    const double expected = ns(configs[i]);
    if (best < 0 || expected < best_ns) {
      best = i;
      best_ns = expected;
    }
  }
  return best;
}

// Calls `use` with `value` as a std::integral_constant; false, and no call, where `value` is none of kValues.
template <auto... kValues, typename Use>
bool visit(std::common_type_t<decltype(kValues)...> value, const Use& use) {
  return ((value == kValues && (use(std::integral_constant<decltype(kValues), kValues>()), true)) || ...);
}

// `visit` for the numbers below kCount, as values of type Value.
template <typename Value, int kCount, typename Use>
bool visit_below(Value value, const Use& use) {
  return [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    return visit<static_cast<Value>(kIndex)...>(value, use);
  }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace tileon
