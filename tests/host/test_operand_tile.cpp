// How operands lie in shared memory, and where their tiles begin.
#include <algorithm>
#include <utility>

#include "cuda/sm90/heuristics/tables.h"
#include "expect.h"

using namespace tileon;
using namespace tileon::sm90;

namespace {

// The parts of a tile that CTAs load for each other: lines of each panel, rows or k, whole groups of eight, which the
// swizzle repeats by.
void test_parts_of_a_tile() {
  using AlongK = OperandTile<256, 64, Major::kK>;
  using AlongMn = OperandTile<160, 64, Major::kMn>;
  constexpr TilePanels half = AlongK::in_panels.part(2), quarter = AlongMn::in_panels.part(4);
  static_assert(half.bytes() * 2 == AlongK::bytes && half.lines == 128);
  expect(AlongK::offset(128, 0) == half.lines * kLineBytes, "the second half's rows");
  static_assert(quarter.bytes() * 4 == AlongMn::bytes && quarter.panels == 3 && quarter.lines == 16);
  expect(AlongMn::offset(0, 2) == 2 * quarter.lines * kLineBytes, "k of the third quarter, in the first panel");
  expect(AlongMn::offset(64, 1) == AlongMn::panel_bytes + quarter.lines * kLineBytes, "and in the second one");
  for (const KernelConfig& config : kDenseConfigs) {
    const TileConfig& tile = config.tile;
    if (tile.cluster_ctas() == 1) continue;
    expect(persistent(tile) && config.splits == 1 && config.ctas_per_sm == 1, "persistent kernels alone", config.name);
    expect(tile.cluster_ctas() <= 8, "larger clusters are not portable", config.name);
    for (const auto& [lines, parts] : {std::pair{tile.tile_m, tile.cluster_n},
                                       {tile.tile_n, tile.cluster_m},
                                       {tile.block_k, tile.cluster_n},
                                       {tile.block_k, tile.cluster_m}})
      expect(lines % (8 * parts) == 0, "parts are whole groups of eight lines", config.name);
  }
}

// The bytes of a tile are visited once by (panel, line, element), and wgmma's offsets lead to the right ones.
template <int kTileMn, int kBlockK, Major kMajor>
void test_operand_tile() {
  using Tile = OperandTile<kTileMn, kBlockK, kMajor>;
  expect(Tile::bytes == operand_bytes(kTileMn, kBlockK, kMajor), "the table counts a tile's bytes as the kernel does");
  for (int mn = 0; mn < kTileMn; mn += 64)
    for (int step = 0; step < kBlockK / kMmaK; ++step) {
      const int k = step * kMmaK;
      const int inner = kMajor == Major::kK ? k : mn, line = kMajor == Major::kK ? mn : k;
      const int place = inner / kPanel * Tile::panel_bytes + line * kLineBytes + inner % kPanel * kElementBytes;
      expect(Tile::offset(mn, step) == place, "wgmma finds what TMA wrote");
      expect(Tile::offset(mn, step) == Tile::offset(mn, 0) + Tile::offset(0, step), "offsets add up");
      expect(Tile::descriptor(1024) + Tile::offset(mn, step) / 16 == Tile::descriptor(1024 + Tile::offset(mn, step)),
             "descriptors add up");
    }
}

// What a tensor that ends within its first tile is loaded as.
void test_loaded_panels() {
  for (int tile_mn : {8, 64, 104, 176, 256})
    for (Major major : {Major::kK, Major::kMn})
      for (int mn = 1; mn <= tile_mn + 1; ++mn) {
        const TilePanels tile(major, tile_mn, 64), loaded = tile.loaded(major, mn);
        const int extent = major == Major::kK ? loaded.lines : loaded.panels * kPanel;
        const int whole = major == Major::kK ? tile.lines : tile.panels * kPanel;
        expect(extent >= std::min(mn, tile_mn) && extent <= whole, "all there is, and no more than a tile");
        expect(extent - mn < (major == Major::kK ? 1 : kPanel), "nothing from beyond the end but a part of a panel");
        const bool is_whole = major == Major::kK ? loaded.panels == tile.panels : loaded.lines == tile.lines;
        expect(is_whole, "all of k");
      }
}

// The tiles cover everything; where k is long, the last one reaches little beyond the end.
void test_last_begin() {
  for (int64_t k : {kOverlapPaysFrom - 1, kOverlapPaysFrom})
    for (int tile_mn : {8, 64, 104, 128, 176, 256})
      for (Major major : {Major::kK, Major::kMn})
        for (int unit : {8, 16})
          for (int mn = 1; mn <= 3 * tile_mn + 1; ++mn) {
            const int tiles = ceil_divide(mn, tile_mn), begin = last_begin(mn, tile_mn, tiles, k, major, unit);
            const int before = (tiles - 1) * tile_mn;  // where the tiles before it end
            expect(begin >= 0 && begin <= before && begin + tile_mn >= mn, "nothing is left out");
            expect(tiles == 1 || begin > before - tile_mn, "the last tile is the only one to be moved");
            expect(k >= kOverlapPaysFrom || begin == before, "a short k is not worth it");
            const bool in_panels = major == Major::kMn && tile_mn % kPanel == 0;
            const int step = in_panels ? kPanel : unit;
            expect(begin == before || begin % step == 0, "panels and stores stay aligned");
            expect(tiles == 1 || k < kOverlapPaysFrom || begin + tile_mn - mn < step || begin == before,
                   "it ends with the operand");
          }
}

}  // namespace

int main() {
  test_parts_of_a_tile();
  test_loaded_panels();
  test_last_begin();
  test_operand_tile<128, 64, Major::kK>();
  test_operand_tile<176, 64, Major::kK>();
  test_operand_tile<64, 128, Major::kK>();
  test_operand_tile<256, 64, Major::kMn>();
  test_operand_tile<176, 64, Major::kMn>();
  test_operand_tile<64, 128, Major::kMn>();
  return report("operand tile");
}
