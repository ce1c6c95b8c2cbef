// The configs that were chosen lately: a product that comes again, as a model's layers do, is not chosen again.
// Compiled by any C++ compiler. A choice takes some tenths of a microsecond, which every eager call would pay.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>

#include "cuda/sm90/heuristics/select.h"

namespace tileon::sm90 {

// All that `choose` looks at.
struct ChoiceKey {
  std::array<int64_t, 12> words;

  ChoiceKey(const Problem& problem, const Gpu& gpu)
      : words{problem.m,
              problem.n,
              problem.k,
              problem.batch,
              problem.a.stride_mn,
              problem.a.stride_k,
              problem.a.stride_batch,
              problem.b.stride_mn,
              problem.b.stride_k,
              problem.b.stride_batch,
              packed({begin(problem.a), begin(problem.b), is_cheap_epilogue(problem), writes_by_tma(problem),
                      takes_vector_stores(problem, 2), takes_vector_stores(problem, 4)}),
              packed({static_cast<int>(problem.a.dtype), static_cast<int>(problem.b.dtype),
                      static_cast<int>(problem.out_dtype), gpu.capability, gpu.sm_count})} {}

  bool operator==(const ChoiceKey&) const = default;

  size_t hash() const {
    uint64_t mixed = 0;
    for (const int64_t word : words) mixed = (std::rotl(mixed, 23) ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15u;
    return mixed >> 32;
  }

 private:
  static int begin(const Matrix& operand) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(operand.data) % kLineBytes);
  }

  static int64_t packed(std::initializer_list<int> numbers) {
    uint64_t word = 0;
    for (const int number : numbers) word = word << 10 | static_cast<uint64_t>(number);
    return static_cast<int64_t>(word);
  }
};

class RecentChoices {
 public:
  // What `choose` says.
  int choose(const Problem& problem, const Gpu& gpu) {
    const ChoiceKey key(problem, gpu);
    const auto found = configs_.find(key);
    if (found != configs_.end()) return found->second;
    if (configs_.size() == kMax) configs_.clear();
    return configs_[key] = sm90::choose(problem, gpu);
  }

 private:
  struct Hash {
    size_t operator()(const ChoiceKey& key) const { return key.hash(); }
  };
  static constexpr size_t kMax = 1024;  // then all are forgotten: sizes that never come again take no memory
  std::unordered_map<ChoiceKey, int, Hash> configs_;
};

// A thread's own: nothing is shared, nothing waits.
inline int choose_once(const Problem& problem, const Gpu& gpu) {
  static thread_local RecentChoices recent;
  return recent.choose(problem, gpu);
}

}  // namespace tileon::sm90
