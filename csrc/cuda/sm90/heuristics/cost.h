// How long a row of the Hopper tile table is expected to take for a problem: pure functions, compiled by any C++
// compiler.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda/sm90/heuristics/dense.h"

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
  if (row.ctas_per_sm > 1) {
    const double share = static_cast<double>(ctas) / sm_count;
    return share > 1 ? share : 1;
  }
  return ceil_divide(tiles, clusters_at_once(row.splits, sm_count));
}

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
  double k_in_64;  // rounded up to whole blocks of 64, and of 128
  double k_in_128;
  double a_bytes;
  double b_bytes;
  double bytes;  // of both operands and the output, each once
  TmaAccess a;
  TmaAccess b;
  int a_lines;  // lines_of_l2
  int b_lines;

  explicit Work(const GemmProblem& problem)
      : k(static_cast<double>(problem.k)),
        k_in_64(static_cast<double>((problem.k + 63) / 64 * 64)),
        k_in_128(static_cast<double>((problem.k + 127) / 128 * 128)),
        a(tma_access(problem.a, problem.batch, problem.m, problem.k, kElementBytes)),
        b(tma_access(problem.b, problem.batch, problem.n, problem.k, kElementBytes)),
        a_lines(lines_of_l2(problem.a, a, problem.m, problem.k)),
        b_lines(lines_of_l2(problem.b, b, problem.n, problem.k)) {
    const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
    const double batch = static_cast<double>(problem.batch);
    const double a_batch = problem.a.stride_batch == 0 ? 1 : batch, b_batch = problem.b.stride_batch == 0 ? 1 : batch;
    a_bytes = a_batch * m * k * kElementBytes;
    b_bytes = b_batch * k * n * kElementBytes;
    bytes = a_bytes + b_bytes + batch * m * n * info(problem.out_dtype).bytes;
  }

  double k_in_blocks(int block_k) const { return block_k == 64 ? k_in_64 : k_in_128; }
};

// The counts that a row's cost is made of.
struct RowWork {
  TileOrder order;
  int64_t tiles;  // of all batches
  double waves;
  double per_k;  // of the operand whose tile may be of any width: mn-major, it comes in whole panels

  RowWork(const Row& row, const GemmProblem& problem, const Work& work, int sm_count)
      : order(tile_order(row.tile, problem.m, problem.n)),
        tiles(order.count() * problem.batch),
        waves(sm90::waves(row, tiles, sm_count)) {
    const Major major = row.tile.family == Family::kSwapAb ? work.a.major : work.b.major;
    per_k = major == Major::kK ? row.per_k : row.per_k_mn;
  }
};

// Fitted with the table. Lines that straddle L2's take so much longer, along k and along mn; along mn, the more the
// fewer panels lie side by side in a tile, for the last line of each is the first one of the next. The same part of the
// operand comes from memory once more.
constexpr double kStraddlingK = 1.098;
constexpr double kStraddlingMn = 0.743;
constexpr double kStraddlingPanel = 0.977;
constexpr double kStraddlingMemory = 0.370;
constexpr double kL2BytesPerNs = 24494.422;  // to all SMs, counted so
constexpr double kFullGpuNs = 1212.009;      // what CTAs on all SMs take longer to start and to end than a single one

// What a tile loads of an operand.
struct OperandLoad {
  double rows;          // in terms of those that L2 hands out best
  double memory_share;  // of the operand that comes from memory once more
};

inline OperandLoad load_of(Major major, int lines, int64_t mn, int tile_mn) {
  const int64_t most = std::min<int64_t>(tile_mn, mn), panels = (most + kPanel - 1) / kPanel;
  const auto rows = static_cast<double>(major == Major::kK ? most : panels * kPanel);
  if (lines == 1) return {rows, 0};
  if (major == Major::kK) return {rows * (1 + kStraddlingK), 0};
  const double per_panel = 1 / static_cast<double>(panels);
  return {rows * (1 + kStraddlingMn + kStraddlingPanel * per_panel), kStraddlingMemory * per_panel};
}

// What a row's time is made of, in nanoseconds: its start, and four things that run at once and get in each other's
// way: the tensor cores, the memory, and L2, to each SM and to all of them; each of them alone would take so long.
struct Cost {
  double share;  // CTAs for each SM
  double waves;
  double start;
  double compute;
  double memory;
  double delivery;
  double l2;

  double together() const { return std::sqrt(compute * compute + memory * memory + delivery * delivery + l2 * l2); }
  double ns() const { return start + together(); }
};

// The counterpart in Python is benchmarks/cost_model.py.
inline Cost cost_of(const Row& row, const GemmProblem& problem, const Work& work, int sm_count) {
  const RowWork counts(row, problem, work, sm_count);
  const OperandLoad a = load_of(work.a.major, work.a_lines, problem.m, row.tile.tile_m);
  const OperandLoad b = load_of(work.b.major, work.b_lines, problem.n, row.tile.tile_n);
  const double tile_bytes = (a.rows + b.rows) * work.k * kElementBytes;
  const auto tiles = static_cast<double>(counts.tiles);
  Cost cost{};
  cost.share = tiles * row.splits / sm_count;
  cost.start = row.start + kFullGpuNs * std::min(1.0, cost.share);
  cost.waves = counts.waves;
  cost.compute = counts.waves * (row.per_tile + counts.per_k * work.k_in_blocks(row.tile.block_k));
  cost.memory = (work.bytes + a.memory_share * work.a_bytes + b.memory_share * work.b_bytes) / row.bytes_per_ns;
  cost.delivery = counts.waves * tile_bytes / (row.sm_bytes_per_ns * row.splits);
  cost.l2 = tiles * tile_bytes / kL2BytesPerNs;
  return cost;
}

// What L2 hands to all SMs at most, in bytes of the lines that the tiles take as they are counted here. Not a measured
// rate: set by hand.
constexpr double kLargestL2BytesPerNs = 20000.0;

// The same for the tables of fp8 and of prepared operands, whose numbers were set by hand for the largest one of the
// three.
inline double largest_bound_ns(const Row& row, const GemmProblem& problem, const Work& work, int sm_count) {
  const RowWork counts(row, problem, work, sm_count);
  const double compute = counts.waves * (row.per_tile + counts.per_k * work.k);
  const double memory = work.bytes / row.bytes_per_ns;
  const double per_block = operand_bytes(row.tile.tile_m, row.tile.block_k, work.a.major) * work.a_lines +
                           operand_bytes(row.tile.tile_n, row.tile.block_k, work.b.major) * work.b_lines;
  const double delivery =
      static_cast<double>(counts.tiles) * per_block / row.tile.block_k * work.k / kLargestL2BytesPerNs;
  return row.start + std::max({compute, memory, delivery});
}

// By the model that the row's numbers are for.
inline double cost_ns(const Row& row, const GemmProblem& problem, const Work& work, int sm_count) {
  return row.sm_bytes_per_ns > 0 ? cost_of(row, problem, work, sm_count).ns()
                                 : largest_bound_ns(row, problem, work, sm_count);
}

}  // namespace tileon::sm90
