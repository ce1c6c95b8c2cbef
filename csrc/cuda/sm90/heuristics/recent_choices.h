// The choices of Hopper's kernels, each remembered for products that come again (choose_once).
#pragma once

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/alike.h"
#include "cuda/sm90/heuristics/select.h"
#include "cuda/sm90/heuristics/select_scaled.h"

namespace tileon::sm90 {

// Of products without scales.
struct ChoiceKey : KeyWords<13> {
  ChoiceKey() = default;
  ChoiceKey(const Problem& problem, const Gpu& gpu) {
    const Operand &a = problem.a, &b = problem.b;
    const bool by_tma = tma_can_write(problem.out, problem.batch, problem.m, problem.n, kElementBytes);
    const int64_t memory = packed({begin(a.data), begin(b.data), is_cheap_epilogue(problem), by_tma,
                                   takes_vector_stores(problem, 2), takes_vector_stores(problem, 4)});
    const int64_t kind = packed(
        {static_cast<int>(a.dtype), static_cast<int>(b.dtype), static_cast<int>(problem.out_dtype),
         (problem.out.stride_n == 1) * 8 + problem.may_slice_k * 4 + problem.fast_accum * 2 + problem.allow_tf32});
    set(product_words(problem, gpu), {memory, kind});
  }

  static int begin(const void* data) { return begin_in(kLineBytes, data); }
};

// Of products with scales.
struct ScaledChoiceKey : KeyWords<25> {
  ScaledChoiceKey() = default;
  ScaledChoiceKey(const Problem& problem, const Gpu& gpu) {
    const Scale &a = problem.a.scale, &b = problem.b.scale;
    const ScaleStrides &of_a = a.strides, &of_b = b.strides;
    const PreparedWeight& weight = problem.prepared_b;
    const int64_t memory = packed({ChoiceKey::begin(a.data), ChoiceKey::begin(b.data), a.vec, b.vec,
                                   static_cast<int>(a.type), static_cast<int>(b.type)});
    const int64_t others =
        packed({weight.data != nullptr, static_cast<int>(weight.form), problem.global_scale_stride != 0});
    set(ChoiceKey(problem, gpu).words, {of_a.row_block, of_a.col_block, of_a.row, of_a.quarter, of_a.col, memory,
                                        of_b.row_block, of_b.col_block, of_b.row, of_b.quarter, of_b.col, others});
  }
};

inline constexpr auto choose_dense_once = &choose_once<ChoiceKey, weigh_dense>;
inline constexpr auto choose_fp8_once = &choose_once<ChoiceKey, weigh_fp8>;
inline constexpr auto choose_bf16x6_once = &choose_once<ChoiceKey, choose_bf16x6>;
inline constexpr auto choose_tf32_once = &choose_once<ChoiceKey, weigh_tf32>;
inline constexpr auto choose_block_scaled_once = &choose_once<ScaledChoiceKey, weigh_block_scaled>;
inline constexpr auto choose_dense_alike_once = &choose_once<WithConfig<ChoiceKey>, choose_dense_alike, int>;
inline constexpr auto choose_fp8_alike_once = &choose_once<WithConfig<ChoiceKey>, choose_fp8_alike, int>;
inline constexpr auto choose_bf16x6_alike_once = &choose_once<WithConfig<ChoiceKey>, choose_bf16x6_alike, int>;
inline constexpr auto choose_tf32_alike_once = &choose_once<WithConfig<ChoiceKey>, choose_tf32_alike, int>;
inline constexpr auto choose_block_scaled_alike_once =
    &choose_once<WithConfig<ScaledChoiceKey>, choose_block_scaled_alike, int>;
inline constexpr auto fold_pays_once = &choose_once<ScaledChoiceKey, fold_pays>;

}  // namespace tileon::sm90
