// How long a config of the Hopper tables is expected to take for a problem: pure functions, compiled by any C++
// compiler. The dense products of 16 bits have a model of their own, `cost_of`, whose numbers are in cost_numbers.h;
// fp8, int8 and float32 go by `largest_bound_ns`, whose numbers are in their tables.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"

namespace tileon::sm90 {

// Clusters of so many CTAs, each of which takes a whole SM. Clusters of four and more leave some of each GPC's SMs
// over: 120 of an H200's 132 take part.
inline int clusters_at_once(int ctas, int sm_count) {
  const int slots = (ctas <= 2 ? sm_count : sm_count * 10 / 11) / ctas;
  return slots > 1 ? slots : 1;
}

// ---- dense products of 16 bits ----

// What the model knows of a config: nanoseconds, and bytes a nanosecond.
struct ConfigNumbers {
  float start;               // before the first tile and after the last one
  float per_tile;            // for a tile beside its k: the epilogue
  float per_k;               // for one k of a tile
  float per_k_mn;            // the same where the operand of any width (b; of kSwapAb, a) is mn-major
  float unaligned_tile;      // for a tile more, where the output's rows cannot be stored whole
  float memory_bytes;        // from memory to all SMs
  float memory_bytes_a_cta;  // from memory to one CTA, which waits for what it has asked for
  float l2_bytes_a_tile;     // from L2 to the CTAs that share a tile: to each of them its part
};

// What it knows of the GPU. A factor says how much more something takes: 0.5 is half as much again.
struct GpuNumbers {
  float full_gpu_ns;   // what CTAs on all SMs take longer to start and to end than a single one
  float not_hidden;    // of the three shorter parts of a cost, beside the longest: so much shows
  float uneven_waves;  // where an SM holds several CTAs and some SMs have one more: what that one counts
  float l2_bytes;      // a nanosecond, from L2 to all SMs
  float short_k;       // of what a block of k lacks: lines shorter than a block take so much of a whole one's time
  float odd_columns;   // factor of unaligned_tile where not even pairs of columns are aligned
  float out_sectors;   // factor of the output's bytes where its rows begin within a sector
  // Factors of what L2 hands to an SM. Lines that begin within one of L2's, for k-major operands and for mn-major ones;
  // of these the last line of a panel is the first of the next, so one for each tile does not count; and lines that
  // begin within a sector.
  float sm_straddling_k, sm_straddling_mn, sm_straddling_tile, sm_sectors_k, sm_sectors_mn;
  // The same of what L2 hands to all SMs.
  float l2_straddling_k, l2_straddling_mn, l2_sectors_k, l2_sectors_mn;
  // For a line of an mn-major operand that is narrower than a panel, nanoseconds: all CTAs ask for the same few of
  // L2's.
  float hot_line_ns;
};

constexpr int64_t kSectorBytes = 32;  // what L2 reads and writes at once

// What a tile loads of an operand, as a function of how many rows (k-major) or panels (mn-major) it has of it.
class OperandLoads {
 public:
  OperandLoads(const Matrix& operand, const TmaAccess& access, int64_t mn, int64_t k, const GpuNumbers& gpu)
      : k_major_(access.major == Major::kK), mn_(static_cast<double>(mn)) {
    const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data) % kLineBytes);
    const int64_t pitch = (k_major_ ? mn : k) > 1 ? access.line_bytes : kLineBytes;
    const int64_t step = std::min<int64_t>(kLineBytes, pitch & -pitch);  // lines begin at all its multiples
    const double straddling = begin % step != 0 ? 1 : 1 - static_cast<double>(step) / kLineBytes;
    const double sectors = (begin | pitch) % kSectorBytes != 0;
    const double sm = 1 + (k_major_ ? straddling * gpu.sm_straddling_k + sectors * gpu.sm_sectors_k
                                    : straddling * gpu.sm_straddling_mn + sectors * gpu.sm_sectors_mn);
    const double l2 = 1 + (k_major_ ? straddling * gpu.l2_straddling_k + sectors * gpu.l2_sectors_k
                                    : straddling * gpu.l2_straddling_mn + sectors * gpu.l2_sectors_mn);
    for (const int block_k : {64, 128}) {
      const auto ks = static_cast<double>(k), whole = static_cast<double>((k + block_k - 1) / block_k * block_k);
      const double bytes = kElementBytes * (k_major_ ? ks + gpu.short_k * (whole - ks) : ks * kPanel);
      of_[block_k == 128] = {bytes * sm, bytes * l2};
      if (!k_major_) of_tile_ = bytes * straddling * gpu.sm_straddling_tile;
    }
    if (!k_major_ && mn < kPanel)
      narrow_lines = static_cast<double>(k) * static_cast<double>(kPanel - mn) / static_cast<double>(kPanel);
  }

  bool k_major() const { return k_major_; }

  struct Bytes {
    double sm, l2;
  };
  Bytes of(int tile_mn, int block_k) const {
    const double rows = std::min<double>(tile_mn, mn_);
    const double units = k_major_ ? rows : static_cast<double>((static_cast<int>(rows) + kPanel - 1) / kPanel);
    const Bytes& each = of_[block_k == 128];
    return {units * each.sm + of_tile_, units * each.l2};
  }

  double narrow_lines = 0;  // lines of k, times the share of a panel that they lack

 private:
  bool k_major_;
  double mn_;
  Bytes of_[2];         // of a row or a panel, in blocks of 64 k and of 128
  double of_tile_ = 0;  // of each tile besides
};

// What is worked out once for a problem.
struct DenseWork {
  const GpuNumbers& gpu;
  OperandLoads a, b;
  double m, n, batch;
  double k_in_64, k_in_128;  // rounded up to whole blocks
  double operand_bytes;
  double bytes;                                   // of both operands and the output, each once
  double unaligned_persistent, unaligned_staged;  // factors of unaligned_tile
  double sm_count, sm_share;                      // SMs, and 1 / SMs
  double clusters[4], cluster_share[4];           // the same of clusters at once, by log2 of their CTAs

  DenseWork(Operands operands, const Problem& problem, int sms, const GpuNumbers& numbers)
      : gpu(numbers),
        a(problem.a, tma_access(problem.a, problem.batch, problem.m, problem.k, kElementBytes), problem.m, problem.k,
          numbers),
        b(problem.b, tma_access(problem.b, problem.batch, problem.n, problem.k, kElementBytes), problem.n, problem.k,
          numbers),
        m(static_cast<double>(problem.m)),
        n(static_cast<double>(problem.n)),
        batch(static_cast<double>(problem.batch)),
        k_in_64(static_cast<double>((problem.k + 63) / 64 * 64)),
        k_in_128(static_cast<double>((problem.k + 127) / 128 * 128)),
        sm_count(sms),
        sm_share(1.0 / sms) {
    const double k = static_cast<double>(problem.k);
    const double a_batch = problem.a.stride_batch == 0 ? 1 : batch, b_batch = problem.b.stride_batch == 0 ? 1 : batch;
    const int64_t row_bytes = problem.n * info(problem.out_dtype).bytes;
    const double out_bytes = batch * m * static_cast<double>(row_bytes);
    operand_bytes = kElementBytes * k * (a_batch * m + b_batch * n);
    bytes = operand_bytes + out_bytes * (row_bytes % kSectorBytes != 0 ? 1 + gpu.out_sectors : 1);
    const bool has_pairs = takes_vector_stores(problem, 2);
    unaligned_persistent = writes_by_tma(operands, problem) ? 0 : has_pairs ? 1 : 1 + gpu.odd_columns;
    unaligned_staged = takes_vector_stores(problem, 4) ? 0 : 1;
    for (int i = 0; i < 4; ++i) {
      clusters[i] = clusters_at_once(1 << i, sms);
      cluster_share[i] = 1 / clusters[i];
    }
  }
};

// A config and its numbers, ready for `cost_of`: what it would divide by is inverted.
struct CostedConfig {
  TileConfig tile;
  int splits, log2_splits, ctas_per_sm;
  double start, per_tile, per_k, per_k_mn, unaligned_tile;
  double share_m, share_n, split_share;            // 1 / tile_m, 1 / tile_n, 1 / splits
  double memory_ns, memory_ns_a_cta, l2_ns_a_cta;  // for a byte

  constexpr CostedConfig() = default;
  constexpr CostedConfig(const KernelConfig& config, const ConfigNumbers& numbers)
      : tile(config.tile),
        splits(config.splits),
        log2_splits(config.splits == 8 ? 3 : config.splits / 2),
        ctas_per_sm(config.ctas_per_sm),
        start(numbers.start),
        per_tile(numbers.per_tile),
        per_k(numbers.per_k),
        per_k_mn(numbers.per_k_mn),
        unaligned_tile(numbers.unaligned_tile),
        share_m(1.0 / config.tile.tile_m),
        share_n(1.0 / config.tile.tile_n),
        split_share(1.0 / config.splits),
        memory_ns(1 / numbers.memory_bytes),
        memory_ns_a_cta(1 / numbers.memory_bytes_a_cta),
        l2_ns_a_cta(1 / (numbers.l2_bytes_a_tile * config.splits)) {}
};

// What a config's time is made of, in nanoseconds: its start, and four parts that run at once: the tensor cores,
// memory, and L2, to each SM and to all of them. The longest part hides the others but for a share.
struct Cost {
  double waves;  // times an SM's time for one tile
  double start, compute, memory, delivery, l2;
  double not_hidden;

  double ns() const {
    const double longest = std::max(std::max(compute, memory), std::max(delivery, l2));
    return start + longest + not_hidden * (compute + memory + delivery + l2 - longest);
  }
};

// ceil(count / size) of what share = 1 / size stands for. Exact below 2^40: the nearest miss is half a `share`.
inline double ceil_by_share(double count, double size, double share) {
  return static_cast<double>(static_cast<int64_t>((count + size - 0.5) * share));
}

// A cost above `limit` may be cut short: it has what was known then, and is above it all the same.
inline Cost cost_of(const CostedConfig& config, const DenseWork& work, double limit) {
  const TileConfig& tile = config.tile;
  const double tiles_m = std::max(1.0, ceil_by_share(work.m, tile.tile_m, config.share_m));
  const double tiles_n = std::max(1.0, ceil_by_share(work.n, tile.tile_n, config.share_n));
  const double tiles = tiles_m * tiles_n * work.batch, ctas = tiles * config.splits;
  const double at_once = work.clusters[config.log2_splits], share = work.cluster_share[config.log2_splits];
  const double rounds = ceil_by_share(tiles, at_once, share);

  Cost cost{};
  cost.not_hidden = work.gpu.not_hidden;
  // CTAs that an SM holds together even out the last wave for the tensor cores, but less for what they wait for; and
  // not where an operand is narrow: its lines are so short that TMA's rate is the limit, and the CTAs take turns.
  double load_waves = rounds;
  cost.waves = rounds;
  if (config.ctas_per_sm > 1 && work.a.narrow_lines + work.b.narrow_lines == 0) {
    const double even = tiles * share;
    cost.waves = std::max(1.0, even);
    load_waves = std::max(1.0, even + work.gpu.uneven_waves * (rounds - even));
  }
  const double unaligned = persistent(tile) ? work.unaligned_persistent : work.unaligned_staged;
  const bool k_major = tile.family == Family::kSwapAb ? work.a.k_major() : work.b.k_major();
  const double k = tile.block_k == 64 ? work.k_in_64 : work.k_in_128;
  cost.start = config.start + work.gpu.full_gpu_ns * std::min(1.0, ctas * work.sm_share);
  cost.compute = cost.waves *
                 (config.per_tile + config.unaligned_tile * unaligned + (k_major ? config.per_k : config.per_k_mn) * k);
  cost.memory = work.bytes * config.memory_ns + work.operand_bytes * load_waves / ctas * config.memory_ns_a_cta;
  if (cost.ns() > limit) return cost;

  const OperandLoads::Bytes a = work.a.of(tile.tile_m, tile.block_k);
  const OperandLoads::Bytes b = work.b.of(tile.tile_n, tile.block_k);
  const double hot = (work.a.narrow_lines * tiles_n + work.b.narrow_lines * tiles_m) * work.batch;
  cost.delivery = load_waves * (a.sm + b.sm) * config.l2_ns_a_cta;
  cost.l2 = tiles * (a.l2 + b.l2) / work.gpu.l2_bytes + hot * work.gpu.hot_line_ns * config.split_share;
  return cost;
}

// ---- fp8, int8 and float32 ----

// How many of L2's lines a line of a tile takes: two, where the operand's lines do not begin at theirs.
inline int lines_of_l2(const Matrix& operand, const TmaAccess& access, int64_t mn, int64_t k) {
  const int64_t outer = access.major == Major::kK ? mn : k;
  const bool aligned = reinterpret_cast<uintptr_t>(operand.data) % kLineBytes == 0 &&
                       (outer == 1 || access.line_bytes % kLineBytes == 0);
  return aligned ? 1 : 2;
}

// What the bounds of every config depend on.
struct Work {
  double k;
  double bytes;  // of both operands and the output, each once
  TmaAccess a;
  TmaAccess b;
  int a_lines;  // lines_of_l2
  int b_lines;

  // `element_bytes` are the operands', as multiplied. k is rounded up to whole words of 16 bits, as the numbers of 8
  // bits were set.
  Work(const Problem& problem, int element_bytes)
      : k(static_cast<double>((problem.k * element_bytes + 1) / 2 * 2 / element_bytes)),
        a(tma_access(problem.a, problem.batch, problem.m, problem.k, element_bytes)),
        b(tma_access(problem.b, problem.batch, problem.n, problem.k, element_bytes)),
        a_lines(lines_of_l2(problem.a, a, problem.m, problem.k)),
        b_lines(lines_of_l2(problem.b, b, problem.n, problem.k)) {
    const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n);
    const double batch = static_cast<double>(problem.batch);
    const double a_batch = problem.a.stride_batch == 0 ? 1 : batch, b_batch = problem.b.stride_batch == 0 ? 1 : batch;
    const double a_bytes = a_batch * m * k * element_bytes, b_bytes = b_batch * k * n * element_bytes;
    bytes = a_bytes + b_bytes + batch * m * n * info(problem.out_dtype).bytes;
  }
};

// What L2 hands to all SMs at most, in bytes of the lines that the tiles take as they are counted here. Not a measured
// rate: set by hand.
constexpr double kLargestL2BytesPerNs = 20000.0;

// The start, and the largest of three bounds: tensor cores, memory and L2.
inline double largest_bound_ns(const KernelConfig& config, const Problem& problem, const Work& work, int sm_count) {
  const TileConfig& tile = config.tile;
  const int64_t tiles = tile_order(tile, problem.m, problem.n).count() * problem.batch;
  const int waves = ceil_divide(tiles, clusters_at_once(config.splits, sm_count));
  const double compute = waves * (config.bound.per_tile + static_cast<double>(config.bound.per_k) * work.k);
  const double memory = work.bytes / config.bound.bytes_per_ns;
  const double per_block = operand_bytes(tile.tile_m, tile.block_k, work.a.major, tile.element_bytes) * work.a_lines +
                           operand_bytes(tile.tile_n, tile.block_k, work.b.major, tile.element_bytes) * work.b_lines;
  const double delivery = static_cast<double>(tiles) * per_block / tile.block_k * work.k / kLargestL2BytesPerNs;
  return config.bound.start + std::max({compute, memory, delivery});
}

}  // namespace tileon::sm90
