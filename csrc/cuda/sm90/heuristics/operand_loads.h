// What the cost model of the Hopper choice knows of a GPU, and what a tile of a dense product loads of an operand: pure
// functions, compiled by any C++ compiler. The model is cost.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/sm90/layout/operand_tile.h"

namespace tileon::sm90 {

// What the model knows of the GPU. A factor says how much more something takes: 0.5 is half as much again.
struct GpuNumbers {
  float full_gpu_ns;   // what CTAs on all SMs take longer to start and to end than a single one
  float not_hidden;    // of the three shorter parts of a cost, beside the longest: so much shows
  float uneven_waves;  // where an SM holds several CTAs and some SMs have one more: what that one counts
  float l2_bytes;      // a nanosecond, from L2 to all SMs
  float short_k;       // of what a block of k lacks: lines shorter than a block take so much of a whole one's time
  float odd_columns;   // factor of unaligned_tile where not even pairs of columns are aligned
  // Factors of the output's bytes where its rows begin within a sector: a warp stores 64 columns at a time, or,
  // swapped, 16 columns of more rows, each of which lies in two sectors then.
  float out_sectors, out_sectors_swapped;
  // Factors of what L2 hands to an SM, by the operand's major: for lines that begin within one of L2's lines, and for
  // lines that begin within a sector. An mn-major panel's last line is the next panel's first one, so one line of each
  // tile does not count (sm_straddling_tile).
  float sm_straddling_k, sm_straddling_mn, sm_straddling_tile, sm_sectors_k, sm_sectors_mn;
  // The same factors, of what L2 hands to all SMs.
  float l2_straddling_k, l2_straddling_mn, l2_sectors_k, l2_sectors_mn;
  // Of an mn-major panel's line beyond the end of k: what an SM takes longer for it, as so much more than for one of
  // L2's lines.
  float sm_zeros_mn;
  // Nanoseconds for a line of an mn-major operand that is narrower than a panel: all CTAs ask for the same few lines of
  // L2; and the factor of it for lines that begin within a sector.
  float hot_line_ns, hot_sectors;
  float stored_share;  // of per_tile: what is saved of a tile that lies outside of the output, and is not stored
  float idle_sms;      // of per_k: what is saved where all other SMs are idle
  // Factor of l2_straddling and l2_sectors where CTAs load for each other. The rest of what L2 hands to all SMs is not
  // less for them: in none of 238 swept products whose lines begin with L2's was a cluster the fastest.
  float cluster_l2;
  // Factors of the configs' numbers, which are an H200's: `tile` of per_tile and unaligned_tile, `k` of per_k and
  // per_k_mn, the others of the numbers that they are named after.
  float start, tile, k, memory_bytes, memory_bytes_a_cta, l2_bytes_a_tile;
};

constexpr int64_t kSectorBytes = 32;  // what L2 reads and writes at once

// The costs are float, `Real`, in the library, since so the compiler works out four configs at once; the fit, which
// takes differences of costs, has double.

// Of both operands, those of matrices that a batch shares once.
template <typename Real>
Real operand_bytes(const Problem& problem, int element_bytes) {
  const auto lines = [&](const Operand& operand, int64_t mn) {
    return static_cast<Real>(operand.stride_batch == 0 ? mn : problem.batch * mn);
  };
  return static_cast<Real>(element_bytes) * static_cast<Real>(problem.k) *
         (lines(problem.a, problem.m) + lines(problem.b, problem.n));
}

// What a tile loads of an operand: for each of its units, rows (k-major) or panels (mn-major), and of each tile
// besides. Where an operand's lines begin with L2's, so do those of a k-major tile. Those of an mn-major one do in the
// first tile, but in all tiles only if it is a multiple of 64 columns wide: the second tile of 104 begins at 208 bytes,
// within a sector. So the numbers are those of a tile that begins within a line and within a sector; `_line` and
// `_sector` are what one saves that begins with a line, and with a sector.
template <typename Real>
struct OperandLoads {
  bool k_major;
  int log2_step;          // lines begin at multiples of 16 << log2_step bytes, the most that 128 allow
  Real max_units;         // rows or panels that the operand has at all
  Real bytes;             // of a unit
  Real short_bytes = 0;   // of a unit, for each k that whole blocks have beyond the operand's
  Real narrow_lines = 0;  // lines of k, times the share of a panel that they lack
  // Bytes to an SM, each as often as the factors say: of a unit, of a unit for each k beyond the operand's, and of a
  // tile besides.
  Real sm_unit, sm_unit_line, sm_unit_sector, sm_short, sm_tile, sm_tile_line;
  Real l2_more, l2_more_line, l2_more_sector;  // factors of the bytes that L2 hands out more

  OperandLoads(const Matrix& operand, const TmaAccess& access, int64_t mn, int64_t k, const GpuNumbers& gpu)
      : k_major(access.major == Major::kK), max_units(static_cast<Real>(k_major ? mn : (mn + kPanel - 1) / kPanel)) {
    const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data) % kLineBytes);
    const int64_t pitch = (k_major ? mn : k) > 1 ? access.line_bytes : kLineBytes;
    const int64_t step = std::min<int64_t>(kLineBytes, pitch & -pitch);  // lines begin at all its multiples
    log2_step = step == 16 ? 0 : step == 32 ? 1 : step == 64 ? 2 : 3;
    const Real straddling = begin % step != 0 ? 1 : 1 - static_cast<Real>(step) / kLineBytes;
    const Real sectors = (begin | pitch) % kSectorBytes != 0;
    bytes = static_cast<Real>(kElementBytes * k * (k_major ? 1 : kPanel));
    if (k_major) {
      const Real factor = 1 + straddling * gpu.sm_straddling_k + sectors * gpu.sm_sectors_k;
      short_bytes = kElementBytes * gpu.short_k;
      sm_unit = bytes * factor, sm_short = short_bytes * factor;
      l2_more = straddling * gpu.l2_straddling_k + sectors * gpu.l2_sectors_k;
      sm_unit_line = sm_unit_sector = sm_tile = sm_tile_line = l2_more_line = l2_more_sector = 0;
      return;
    }
    // Where the pitch is no multiple of a sector, every other line begins within one: `sm_sectors_mn` is for that. Of a
    // tile that begins within one all lines do.
    const Real line = 1 - straddling, sector = 2 * (1 - sectors);
    sm_unit = bytes * (1 + gpu.sm_straddling_mn + (sectors + sector) * gpu.sm_sectors_mn);
    sm_unit_line = bytes * line * gpu.sm_straddling_mn, sm_unit_sector = bytes * sector * gpu.sm_sectors_mn;
    sm_short = kLineBytes * gpu.sm_zeros_mn;
    sm_tile = bytes * gpu.sm_straddling_tile, sm_tile_line = line * sm_tile;
    l2_more = gpu.l2_straddling_mn + (sectors + sector) * gpu.l2_sectors_mn;
    l2_more_line = line * gpu.l2_straddling_mn, l2_more_sector = sector * gpu.l2_sectors_mn;
    if (mn < kPanel)
      narrow_lines =
          static_cast<Real>(k) * static_cast<Real>(kPanel - mn) * (1 + sectors * gpu.hot_sectors) / Real{kPanel};
  }
};

}  // namespace tileon::sm90
