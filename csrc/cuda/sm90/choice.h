// Which row of the Hopper tile table takes a problem: a pure function, compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../cheapest.h"
#include "config.h"

namespace tileon::sm90 {

// Clusters of so many CTAs, each of which takes a whole SM. Clusters of four and more leave some of each GPC's SMs
// over: 120 of an H200's 132 take part.
inline int clusters_at_once(int ctas, int sm_count) {
  const int slots = (ctas <= 2 ? sm_count : sm_count * 10 / 11) / ctas;
  return slots > 1 ? slots : 1;
}

// How many times an SM's time for one tile the product takes. Where an SM holds several CTAs they even out what is left
// over in the last wave.
inline double waves(const Row& row, int64_t tiles, int sm_count) {
  const int64_t ctas = tiles * row.splits;
  if (row.resident > 1) {
    const double share = static_cast<double>(ctas) / sm_count;
    return share > 1 ? share : 1;
  }
  return ceil_divide(tiles, clusters_at_once(row.splits, sm_count));
}

// What L2 hands to all SMs at most, in bytes of the lines that the tiles take as they are counted here. Not a measured
// rate: set by hand, by the regret that benchmarks/fit_hopper.py prints.
constexpr double kL2BytesPerNs = 20000.0;

// How many of L2's lines a line of a tile takes: two, where the operand's lines do not begin at theirs.
inline int lines_of_l2(const Operand& operand, const TmaAccess& access, int64_t mn, int64_t k) {
  const int64_t outer = access.major == Major::kK ? mn : k;
  const bool aligned = reinterpret_cast<uintptr_t>(operand.data) % kLineBytes == 0 &&
                       (outer == 1 || access.line_bytes % kLineBytes == 0);
  return aligned ? 1 : 2;
}

// What the cost of every row depends on.
struct Work {
  double k;
  double bytes;  // of both operands and the output, each once
  Major a_major;
  Major b_major;
  int a_lines;  // lines_of_l2
  int b_lines;

  explicit Work(const GemmProblem& problem) : k(static_cast<double>(problem.k)) {
    const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
    const double batch = static_cast<double>(problem.batch);
    const double a_batch = problem.a.stride_batch == 0 ? 1 : batch, b_batch = problem.b.stride_batch == 0 ? 1 : batch;
    bytes = (a_batch * m * k + b_batch * k * n) * kElementBytes + batch * m * n * info(problem.out_dtype).bytes;
    const TmaAccess a = tma_access(problem.a, problem.batch, problem.m, problem.k, kElementBytes);
    const TmaAccess b = tma_access(problem.b, problem.batch, problem.n, problem.k, kElementBytes);
    a_major = a.major;
    b_major = b.major;
    a_lines = lines_of_l2(problem.a, a, problem.m, problem.k);
    b_lines = lines_of_l2(problem.b, b, problem.n, problem.k);
  }
};

inline double expected_ns(const Row& row, const GemmProblem& problem, const Work& work, int sm_count) {
  const int64_t tiles = tile_order(row.tile, problem.m, problem.n).count() * problem.batch;
  // The operand whose tile may be of any width: mn-major, it comes in whole panels.
  const Major major = row.tile.family == Family::kSwapped ? work.a_major : work.b_major;
  const double per_k = major == Major::kK ? row.per_k : row.per_k_mn;
  const double compute = waves(row, tiles, sm_count) * (row.per_tile + per_k * work.k);
  const double memory = work.bytes / row.bytes_per_ns;
  const double per_block = operand_bytes(row.tile.tile_m, row.tile.block_k, work.a_major) * work.a_lines +
                           operand_bytes(row.tile.tile_n, row.tile.block_k, work.b_major) * work.b_lines;
  const double delivery = static_cast<double>(tiles) * per_block / row.tile.block_k * work.k / kL2BytesPerNs;
  return row.start + std::max({compute, memory, delivery});
}

// The row that is expected to be fastest, by index; -1 where none can run the problem.
inline int choose(const GemmProblem& problem, const Gpu& gpu) {
  if (why_not(problem, gpu) != nullptr) return -1;
  const Work work(problem);
  return cheapest(
      kRows, [](const Row&) { return true; },
      [&](const Row& row) { return expected_ns(row, problem, work, gpu.sm_count); });
}

}  // namespace tileon::sm90
