// Float32 operands as the tensor cores take them: three bfloat16 for each number, whose sum it is. Where they lie, and
// what memory that takes: pure functions, compiled by any C++ compiler.
//
// Of the nine products of two such triples six count; the other three together are no more than 2^-23 of the whole, and
// mostly far less (Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations", arXiv 1904.06376).
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "cuda/sm90/layout/operand_tile.h"

namespace tileon::sm90 {

// The planes of 64 k, in the order in which a kernel reads them: a stage of the pipeline each.
enum Plane : int { kLowPlane, kHighPlane, kMiddlePlane, kPlanes };

// Panels of 64 k in a plane, the last one filled up with zeros; where k is 0 there is nothing else in it.
constexpr int64_t k_panels(int64_t k) { return k > kPanel ? (k + kPanel - 1) / kPanel : 1; }

// Elements of bfloat16 that a row of k numbers takes.
constexpr int64_t bf16x3_k(int64_t k) { return k_panels(k) * kPanel * kPlanes; }

// Where 64 k of a plane begin in a row.
constexpr int64_t panel_begin(int64_t k_panel, int plane) { return (k_panel * kPlanes + plane) * kPanel; }

// Matrices of an operand: one, where it serves the whole batch.
inline int64_t bf16x3_matrices(const Operand& operand, const Problem& problem) {
  return operand.stride_batch == 0 ? 1 : problem.batch;
}

// CTAs that split, at most: each leaves a word behind both operands, and every CTA of a kernel that is to multiply
// anew looks at all of them.
constexpr int kMaxSplitCtas = 1024;

struct Bf16x3Scratch {
  int64_t b = 0;  // in bytes: where b begins, behind a, and the words
  int64_t words = 0;
  int64_t bytes = 0;

  explicit Bf16x3Scratch(const Problem& problem) {
    const int64_t row_bytes = bf16x3_k(problem.k) * kElementBytes;
    b = bf16x3_matrices(problem.a, problem) * problem.m * row_bytes;
    words = b + bf16x3_matrices(problem.b, problem) * problem.n * row_bytes;
    bytes = words + kMaxSplitCtas * int64_t{sizeof(uint32_t)};
  }
};

// The product of the split operands at `scratch`: one of bfloat16, as far as memory is concerned.
inline Problem bf16x3_problem(const Problem& problem, const void* scratch) {
  Problem split = problem;
  split.k = bf16x3_k(problem.k);
  const auto operand = [&](const Operand& from, int64_t begin, int64_t mn) -> Operand {
    const bool shared = from.stride_batch == 0;
    const Matrix rows{static_cast<const uint8_t*>(scratch) + begin, split.k, 1, shared ? 0 : mn * split.k};
    return {rows, DType::kBFloat16, {}};
  };
  split.a = operand(problem.a, 0, problem.m);
  split.b = operand(problem.b, Bf16x3Scratch(problem).b, problem.n);
  return split;
}

}  // namespace tileon::sm90
