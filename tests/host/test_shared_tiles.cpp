// Which tiles CTAs share, and that their ranges are what the kernel takes them for.
#include <algorithm>
#include <iterator>

#include "cuda/sm90/heuristics/shared_tiles.h"
#include "cuda/sm90/heuristics/tables.h"
#include "expect.h"

namespace {

using namespace tileon;
using namespace tileon::sm90;

Problem problem(int64_t m, int64_t n, int64_t k) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

int64_t tiles_of(const KernelConfig& config, const Problem& problem) {
  return tile_order(config.tile, problem.m, problem.n).count();
}

// How many CTAs in front hand over sums of the tile that `cta` finishes first; 0 where it finishes none of theirs.
int others_of(const StreamK& stream, int cta) {
  const int begin = stream.begin_of(cta), end = stream.begin_of(cta + 1);
  const int tile_begin = begin / stream.k_blocks * stream.k_blocks;
  if (begin == tile_begin || end < tile_begin + stream.k_blocks) return 0;
  int others = 1;
  while (stream.begin_of(cta - others) > tile_begin) ++others;
  return others;
}

void test_ranges(const KernelConfig& config, const Problem& problem, int sms) {
  const int64_t tiles = tiles_of(config, problem);
  const StreamK stream = share_tiles(config, problem, sms).stream;
  if (stream.ctas == 0) return expect(stream.first_tile == tiles, "all tiles are whole");
  const int at_once = clusters_at_once(config.tile.cluster_ctas(), sms);
  expect(stream.ctas <= at_once, "a CTA on each SM, or a cluster on some");
  expect(stream.first_tile % at_once == 0 && stream.first_tile < tiles, "whole tiles make full rounds");
  expect(stream.first_tile == 0 || stream.ctas == at_once, "all CTAs have whole tiles");
  expect(stream.begin_of(0) == 0, "from the first block");
  expect(stream.begin_of(stream.ctas) == (tiles - stream.first_tile) * stream.k_blocks, "to the last one");
  for (int cta = 0; cta < stream.ctas; ++cta) {
    const int begin = stream.begin_of(cta);
    expect(begin < stream.begin_of(cta + 1), "no range is empty");
    const int within = begin % stream.k_blocks;
    expect(within == 0 || (within >= stream.least && stream.k_blocks - within >= stream.least), "no part is short");
    expect(sm90::others_of(stream, tiles - stream.first_tile) >= others_of(stream, cta), "so many others at most");
  }
}

// Of a cluster's CTAs.
void test_splits(const KernelConfig& config, const Problem& problem, int sms) {
  const int64_t tiles = tiles_of(config, problem);
  const SharedTiles shared = share_tiles(config, problem, sms);
  const int k_blocks = shared.stream.k_blocks, of_cta = ceil_divide(k_blocks, shared.splits);
  expect(shared.stream.ctas == 0 || shared.splits == 1, "tiles are shared in one way");
  expect((shared.splits - 1) * of_cta < k_blocks, "every CTA has blocks of k");
  if (shared.splits == 1) return;
  expect(has_clusters(config), "there is a kernel");
  expect(tiles <= clusters_at_once(shared.splits, sms) && tiles * shared.splits <= sms, "all clusters run at once");
  expect(shared.splits <= decoding_warps(config.tile), "every CTA finishes some rows");
  const int begin = pipeline_begin(config.tile, store_buffers(config.tile));
  expect(begin + received_bytes(config.tile, shared.splits) <= kSmemLimit, "there is room for what is received");
}

void test_ranges_of_many_problems() {
  int shared = 0, split = 0, dense = 0;
  const auto test_config = [&](const KernelConfig& config) {
    for (const int sms : {132, 114, 16, 3})
      for (const int64_t m : {1, 64, 100, 300, 1024, 4096})
        for (const int64_t n : {128, 2880, 5120})
          for (const int64_t k : {64, 500, 1024, 2880, 14336, 1 << 24}) {
            test_ranges(config, problem(m, n, k), sms);
            test_splits(config, problem(m, n, k), sms);
            const SharedTiles found = share_tiles(config, problem(m, n, k), sms);
            shared += found.stream.ctas > 0;
            split += found.splits > 1;
            dense += config.streams && found.stream.ctas > 0;
          }
  };
  for (const KernelConfig& config : kBlockScaledConfigs)
    if (shares_tiles(config)) test_config(config);
  for (const KernelConfig& config : kStreamedConfigs) {
    expect(shares_tiles(config) && !has_clusters(config), "kernels of 16 bits have no clusters that split k",
           config.name);
    test_config(config);
  }
  expect(shared > 1000, "many problems share tiles");
  expect(split > 200, "and clusters have those of many others");
  expect(dense > 100, "some of 16 bits do");
}

void test_when_tiles_are_shared() {
  const auto* config = std::find_if(std::begin(kBlockScaledConfigs), std::end(kBlockScaledConfigs),
                                    [](const KernelConfig& one) { return one.operands == Operands::kWeightCodes; });
  const auto stream = [&](int64_t m, int64_t n, int64_t k) {
    return share_tiles(*config, problem(m, n, k), 132).stream;
  };
  expect(stream(1024, 5120, 8192).ctas == 132, "160 tiles on 132 SMs");
  expect(stream(256, 128 * 132, 8192).ctas == 0, "a full round");
  expect(stream(256, 5120, 8192).ctas == 120, "three CTAs a tile, of 40");
  expect(stream(1024, 5120, 512).ctas == 0, "a short k");
  Problem fixed = problem(1024, 5120, 8192);
  const double shared_ns = share_tiles(*config, fixed, 132).ns;
  fixed.may_slice_k = false;
  expect(share_tiles(*config, fixed, 132).stream.ctas == 0, "where k may not be shared");
  expect(share_tiles(*config, fixed, 132).ns > shared_ns, "which takes longer");
}

}  // namespace

int main() {
  test_ranges_of_many_problems();
  test_when_tiles_are_shared();
  return report("shared tiles");
}
