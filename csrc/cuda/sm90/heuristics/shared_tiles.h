// How many CTAs share the k of a tile of kernels that can (shares_tiles in block_scaled.h), and what that saves: those
// of a cluster, which send each other their sums (kernels/cluster_tiles.cuh), or, of an output's last tiles, any CTAs
// (layout/stream_k.h), which hand them over through memory. Pure functions, compiled by any C++ compiler.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.h"
#include "cuda/sm90/heuristics/block_scaled.h"
#include "cuda/sm90/heuristics/config.h"
#include "cuda/sm90/heuristics/operand_loads.h"
#include "cuda/sm90/layout/stream_k.h"

namespace tileon::sm90 {

constexpr int kLeastSharedK = 256;  // elements of a tile's shortest part
constexpr int kLeastRangeK = 512;   // and of a CTA's range

// What it takes that a CTA hands its sums over and another adds them to its own, in nanoseconds. Fitted, as what
// follows, to 447 products on an H100, each with shared tiles and without. The third of it that each further CTA of a
// tile costs was set by hand: of such tiles there were few.
constexpr double kHandOverNs = 1000.0;
constexpr double kSharedBytesPerNs = 20.0;  // of a CTA

// The exchange of products of 16 bits, on an H200: nanoseconds once, and bytes a nanosecond of each CTA that hands over
// (fitted as streamed.h says).
constexpr double kStreamedHandOverNs = 2860.0;
constexpr double kStreamedBytesPerNs = 78.0;

// The price of CTAs of 16-bit products that are each at another k: no load serves two of them until L2 has most of both
// operands, so that the first products wait for memory. It goes by the bytes of both operands, but counts so many at
// most.
constexpr double kScatteredBytesPerNs = 29000.0, kMostScatteredBytes = 110e6;

// CTAs that share tiles are each at another k, and find in L2 what another has read only where L2 holds all of it. So
// many bytes it does; what is beyond is read once more. Where there is one tile along n no two CTAs read the same part
// of `a`, so it is not read again; nor is `b` where there is one tile along m.
constexpr double kL2Bytes = 50e6;
constexpr double kReadAgainBytesPerNs = 2000.0;

// How a config's tiles are computed, and what their products take.
struct SharedTiles {
  StreamK stream;
  double ns;
  int splits = 1;  // CTAs of a cluster
};

// The tiles from `first_tile` on, shared by `ctas` CTAs; ctas = 0 where their ranges would be too short.
inline StreamK stream_of(const TileConfig& tile, int64_t tiles, int k_blocks, int64_t first_tile, int64_t ctas) {
  const StreamK none{static_cast<int>(tiles), 0, k_blocks};
  const int64_t blocks = (tiles - first_tile) * k_blocks;
  const int least = (kLeastSharedK + tile.block_k - 1) / tile.block_k;
  if (ctas < 2 || k_blocks < 2 * least || blocks / ctas < kLeastRangeK / tile.block_k || blocks >= 1 << 30) return none;
  return {static_cast<int>(first_tile),    static_cast<int>(ctas),          k_blocks,
          static_cast<int>(blocks / ctas), static_cast<int>(blocks % ctas), least};
}

// At most so many CTAs hand over sums of one tile.
inline int others_of(const StreamK& stream, int64_t shared_tiles) {
  if (stream.ctas % shared_tiles == 0) return static_cast<int>(stream.ctas / shared_tiles) - 1;
  return (stream.k_blocks - 2) / stream.blocks + 1;
}

inline int64_t sums_bytes(const TileConfig& tile) { return int64_t{tile.tile_m} * tile.tile_n * 4; }

// Of an element, as it comes from memory.
constexpr int bits_of_b(const TileConfig& tile) { return tile.code_bits > 0 ? tile.code_bits : 8 * tile.element_bytes; }

// Nanoseconds of reading once more what the shared tiles read.
inline double read_again_ns(const KernelConfig& config, const StreamK& stream, const Problem& problem) {
  const TileOrder order = tile_order(config.tile, problem.m, problem.n);
  const int shared = static_cast<int>(int64_t{order.tiles_m} * order.tiles_n * problem.batch) - stream.first_tile;
  const int tiles_m = std::max(std::min(order.tiles_m, order.group_m), ceil_divide(shared, order.tiles_n));
  const int tiles_n = std::min(order.tiles_n, ceil_divide(shared, tiles_m));
  const bool reads_a_again = order.tiles_n > 1, reads_b_again = order.tiles_m > 1;
  const double rows = static_cast<double>(std::min<int64_t>(int64_t{tiles_m} * config.tile.tile_m, problem.m));
  const double m = reads_a_again ? rows : 0, n = reads_b_again ? static_cast<double>(tiles_n) * config.tile.tile_n : 0;
  const double bytes =
      static_cast<double>(problem.k) * (config.tile.element_bytes * m + bits_of_b(config.tile) / 8.0 * n);
  return std::max(bytes - kL2Bytes, 0.0) / kReadAgainBytesPerNs;
}

// Nanoseconds that a tile takes longer for the sums of `others` CTAs.
inline double exchange_ns(const KernelConfig& config, int others) {
  const auto bytes = static_cast<double>(sums_bytes(config.tile));
  if (config.streams) return kStreamedHandOverNs + others * bytes / kStreamedBytesPerNs;
  return (2 + others) / 3.0 * (kHandOverNs + bytes / kSharedBytesPerNs);
}

// Nanoseconds of the products of `tiles` tiles. Beside the shared ones each CTA has `whole` others.
inline double shared_ns(const KernelConfig& config, const StreamK& stream, int64_t tiles, int64_t whole) {
  const CostNumbers& cost = config.cost;
  const double k = static_cast<double>(stream.blocks + (stream.rest > 0)) * config.tile.block_k;
  const double of_whole = cost.per_tile + static_cast<double>(cost.per_k) * stream.k_blocks * config.tile.block_k;
  const double stored = stream.blocks >= stream.k_blocks ? 2 : 1;  // tiles, by a CTA
  const int others = others_of(stream, tiles - stream.first_tile);
  return static_cast<double>(whole) * of_whole + stored * cost.per_tile + cost.per_k * k + exchange_ns(config, others);
}

// Nanoseconds that the operands of shared tiles take longer to load than those of whole ones.
inline double scattered_loads_ns(const KernelConfig& config, const StreamK& stream, int64_t tiles,
                                 const Problem& problem) {
  if (!config.streams) return read_again_ns(config, stream, problem);
  if (stream.ctas % (tiles - stream.first_tile) == 0) return 0;
  const auto bytes = operand_bytes<double>(problem, config.tile.element_bytes);
  return std::min(bytes, kMostScatteredBytes) / kScatteredBytesPerNs;
}

// Of less than a round of tiles each may have so many CTAs.
constexpr int kCtasOfTile[] = {2, 3, 4, 6, 8, 12, 16};

// ---- clusters ----

// CTAs of a cluster: such clusters leave few of a GPC's SMs over.
constexpr int kCtasOfCluster[] = {2, 3, 4, 5, 8};

// Whether there is a kernel of a config for clusters: not of every width, for one nearby serves as well, nor where the
// registers are full, nor of folds, which it made no faster, nor of 16 bits, which have kernels that split k.
constexpr bool has_clusters(const KernelConfig& config) {
  const int columns = config.tile.mma_columns();
  if (!shares_tiles(config) || is_folded_weight(config.operands) || config.streams) return false;
  if (config.operands == Operands::kWeightBlocks && columns == 128) return false;
  return columns <= 128 || columns % 64 == 0;
}

// What a CTA sends in a nanosecond, the waits around it among that: fitted to 485 times of 22 sizes on an H200, of
// weights of mxfp4, mxfp8 and e4m3 with scales of rows and of blocks.
constexpr double kSentBytesPerNs = 16.0;

// A warp's sums, and what the CTAs of a cluster send one of them: each warp's come from all others, those of every
// `splits`-th warp.
constexpr int part_bytes(const TileConfig& tile) { return kStoreRows * tile.mma_columns() * 4; }
constexpr int received_bytes(const TileConfig& tile, int splits) {
  return ceil_divide(decoding_warps(tile), splits) * (splits - 1) * part_bytes(tile);
}

// Whether all tiles run at once as clusters of `splits` CTAs, each of which has blocks of k.
inline bool fit_clusters(int64_t tiles, int k_blocks, int splits, int sm_count) {
  const bool have_blocks = ceil_divide(k_blocks, ceil_divide(k_blocks, splits)) == splits;
  return have_blocks && tiles <= clusters_at_once(splits, sm_count) && tiles * splits <= sm_count;
}

// Nanoseconds of a tile by a cluster of `splits` CTAs.
inline double cluster_ns(const KernelConfig& config, int k_blocks, int splits) {
  const double k = static_cast<double>(ceil_divide(k_blocks, splits)) * config.tile.block_k;
  const double sent = static_cast<double>(sums_bytes(config.tile)) * (splits - 1) / splits;
  return config.cost.per_tile + config.cost.per_k * k + sent / kSentBytesPerNs;
}

// ---- the choice ----

// The fastest way: no tile is shared; a cluster has each; or those of the last two rounds are shared, where the last
// one is not full. Each SM has a range then, or each tile the same number of CTAs. Where CTAs load together, a cluster
// of them stands for a CTA, and their tiles for a tile.
inline SharedTiles share_tiles(const KernelConfig& config, const Problem& problem, int sm_count) {
  const int64_t tiles = tile_order(config.tile, problem.m, problem.n).count() * problem.batch;
  const int k_blocks = ceil_divide(std::max<int64_t>(problem.k, 1), config.tile.block_k);
  const int at_once = clusters_at_once(config.tile.cluster_ctas(), sm_count);
  const int64_t rounds = (tiles + at_once - 1) / at_once;
  const double of_tile = config.cost.per_tile + static_cast<double>(config.cost.per_k) * static_cast<double>(problem.k);
  SharedTiles best{{static_cast<int>(tiles), 0, k_blocks}, static_cast<double>(rounds) * of_tile};
  if (!problem.may_slice_k || tiles % at_once == 0) return best;
  for (const int splits : kCtasOfCluster) {
    if (!has_clusters(config) || !fit_clusters(tiles, k_blocks, splits, sm_count)) continue;
    const double ns = cluster_ns(config, k_blocks, splits);
    if (ns < best.ns) best = {best.stream, ns, splits};
  }
  const int64_t whole = std::max<int64_t>(rounds - 2, 0);
  const auto consider = [&](int64_t ctas) {
    const StreamK stream = stream_of(config.tile, tiles, k_blocks, whole * at_once, ctas);
    if (stream.ctas == 0) return;
    const double ns = shared_ns(config, stream, tiles, whole) + scattered_loads_ns(config, stream, tiles, problem);
    if (ns < best.ns) best = {stream, ns, 1};
  };
  // Single CTAs of 16-bit products have gained by equal parts of every tile alone: ranges that begin at any k cost them
  // more loads from L2 than clusters.
  if (!config.streams || config.tile.cluster_ctas() > 1) consider(at_once);
  for (const int of_tile : kCtasOfTile)
    if (tiles * of_tile <= at_once) consider(tiles * of_tile);
  return best;
}

// What the CTAs hand over, and the words behind it that say when it is there.
inline int64_t shared_sums_bytes(const KernelConfig& config, const StreamK& stream) {
  return stream.ctas * config.tile.cluster_ctas() * sums_bytes(config.tile);
}
inline int64_t shared_bytes(const KernelConfig& config, const StreamK& stream) {
  const int64_t ctas = int64_t{stream.ctas} * config.tile.cluster_ctas();
  return shared_sums_bytes(config, stream) + ctas * config.tile.consumers * 8;
}

}  // namespace tileon::sm90
