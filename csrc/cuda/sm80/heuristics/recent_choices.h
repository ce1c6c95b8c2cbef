// The choice of a portable kernel, remembered for products that come again (choose_once).
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm80/heuristics/choice.h"

namespace tileon::sm80 {

// Of products without scales, wherever their output is.
struct ChoiceKey : KeyWords<12> {
  static constexpr int kLoadBytes = 16;  // of the widest loads, which alone ask for an alignment

  ChoiceKey() = default;
  ChoiceKey(const Problem& problem, const Gpu& gpu) {
    const Operand &a = problem.a, &b = problem.b;
    const int64_t operands = packed({begin_in(kLoadBytes, a.data), begin_in(kLoadBytes, b.data),
                                     static_cast<int>(a.dtype), static_cast<int>(b.dtype),
                                     problem.may_slice_k * 4 + problem.allow_tf32 * 2 + is_cheap_epilogue(problem)});
    set(product_words(problem, gpu), {operands});
  }
};

// Of products with block scales, however these lie.
struct ScaledChoiceKey : KeyWords<13> {
  ScaledChoiceKey() = default;
  ScaledChoiceKey(const Problem& problem, const Gpu& gpu) {
    const Scale &a = problem.a.scale, &b = problem.b.scale;
    set(ChoiceKey(problem, gpu).words,
        {packed({a.vec, b.vec, static_cast<int>(a.type), static_cast<int>(b.type), problem.global_scale_stride != 0})});
  }
};

inline constexpr auto choose_dense_once = &choose_once<ChoiceKey, choose_dense>;
inline constexpr auto choose_block_scaled_once = &choose_once<ScaledChoiceKey, choose_block_scaled>;

inline constexpr auto choose_dense_alike_once = &choose_once<WithConfig<ChoiceKey>, choose_dense_alike, int>;
inline constexpr auto choose_block_scaled_alike_once =
    &choose_once<WithConfig<ScaledChoiceKey>, choose_block_scaled_alike, int>;

}  // namespace tileon::sm80
