// What operands become before they are multiplied, where it is not what they are in memory: float32 three bfloat16,
// codes of mxfp4 rows of int8, e5m2 or bfloat16. Pure functions, compiled by any C++ compiler.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/problem.h"
#include "cuda/sm90/layout/operand_tile.h"

namespace tileon::sm90 {

// ---- float32: three bfloat16 for each number, whose sum it is ----
//
// Of the nine products of two such triples six count; the other three together are no more than 2^-23 of the whole, and
// mostly far less (Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations", arXiv 1904.06376).

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

// ---- mxfp4: a narrow encoding where the scales allow it, as they decide on the device ----
//
// A row of codes times the scales of its blocks is a row of narrow numbers times one power of two, as long as no scale
// lies too far below the largest one. Blocks of zeros fit under any scale.

enum class Encoding : int8_t {
  kInt8,      // in halves e2m1 is 0, 1, 2, 3, 4, 6, 8, 12; three powers of two more are at most 96
  kE5M2,      // 27 powers of two of every code; summed with fast_accum's error
  kBFloat16,  // elements times their own scales, whatever the scales are
};

// How many powers of two below a row's largest scale the row's other scales may lie.
constexpr int kInt8Binades = 3, kFloat8Binades = 26;

// Rows' largest elements are as large as can be: beside their largest scale, rows lack these powers of two.
constexpr int kInt8LackedExponent = -kInt8Binades - 1;  // and halves
constexpr int kFloat8LackedExponent = -kFloat8Binades / 2;

// The largest scale of a row in a narrow encoding, as a byte of e8m0: 2^-60 to 2^60. So no factor of a row and a column
// is infinite or 0: the smallest factor, 2^-146, is subnormal, which these kernels do not flush.
constexpr int kMinExponent = 67, kMaxExponent = 187;

// What does not fit, as bits of the words that classify_scales leaves.
constexpr uint32_t kBeyondInt8 = 1, kBeyondFloat8 = 2;

struct EncodingChoice {
  const uint32_t* words;  // of classify_scales
  int count;
  bool fast_accum;  // kE5M2 may be chosen
};

TILEON_HOST_DEVICE constexpr Encoding encoding_of(uint32_t beyond, bool fast_accum) {
  if ((beyond & kBeyondInt8) == 0) return Encoding::kInt8;
  return fast_accum && (beyond & kBeyondFloat8) == 0 ? Encoding::kE5M2 : Encoding::kBFloat16;
}

}  // namespace tileon::sm90
