// Block-scaled products as Hopper's host tests ask about them: contiguous operands at addresses that TMA takes.
#pragma once

#include <initializer_list>

#include "core/problem.h"
#include "cuda/runtime/gpu.h"

constexpr tileon::Gpu kH200{90, 132, 227 * 1024, 90};
constexpr tileon::Gpu kAda{89, 128, 99 * 1024, 89};
constexpr auto e4m3 = tileon::ElementType::kE4M3, e2m1 = tileon::ElementType::kE2M1;

inline tileon::BlockScaledProblem problem_of(int64_t m, int64_t n, int64_t k, tileon::ElementType a = e2m1,
                                             tileon::ElementType b = e2m1,
                                             tileon::ScaleType scale = tileon::ScaleType::kE8M0) {
  tileon::BlockScaledProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a.element = a;
  problem.b.element = b;
  for (tileon::BlockScaledOperand* operand : {&problem.a, &problem.b}) {
    operand->stride_row = k / tileon::elements_per_byte(operand->element);
    operand->stride_k = 1;
  }
  problem.scale_type = scale;
  return problem;
}
