// Block-scaled products as Hopper's host tests ask about them: contiguous operands at addresses that TMA takes.
#pragma once

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"

constexpr tileon::Gpu kH200{90, 132, 227 * 1024, 90};
constexpr tileon::Gpu kAda{89, 128, 99 * 1024, 89};
constexpr auto e4m3 = tileon::DType::kFloat8E4M3, e2m1 = tileon::DType::kFloat4E2M1;

inline tileon::Problem problem_of(int64_t m, int64_t n, int64_t k, tileon::DType a = e2m1, tileon::DType b = e2m1,
                                  tileon::ScaleType scale = tileon::ScaleType::kE8M0) {
  tileon::Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.out_dtype = tileon::DType::kFloat16;
  problem.out = {reinterpret_cast<void*>(uintptr_t{4096}), n, 1, 0};
  const auto operand = [&](tileon::DType dtype) -> tileon::Operand {
    return {{nullptr, k / tileon::elements_per_byte(dtype), 1, 0}, dtype, {nullptr, scale, vec_of(scale), {}}};
  };
  problem.a = operand(a);
  problem.b = operand(b);
  return problem;
}
