// Every tile of the output is visited exactly once, whatever the sizes and the group.
#include <cstdio>
#include <vector>

#include "cuda/tile/tile_order.h"

int main() {
  int failures = 0;
  for (int group_m : {1, 2, 3, 8, 16}) {
    for (int tiles_m = 1; tiles_m <= 20; ++tiles_m) {
      for (int tiles_n = 1; tiles_n <= 9; ++tiles_n) {
        const tileon::TileOrder order{tiles_m, tiles_n, group_m};
        std::vector<int> visits(tiles_m * tiles_n, 0);
        for (int tile = 0; tile < order.count(); ++tile) {
          const tileon::TileCoordinate at = order.at(tile);
          const bool inside = at.m >= 0 && at.m < tiles_m && at.n >= 0 && at.n < tiles_n;
          if (inside) ++visits[at.m * tiles_n + at.n];
          if (!inside || at.m / group_m != tile / (group_m * tiles_n)) ++failures;
        }
        for (int count : visits) failures += count != 1;
      }
    }
  }
  std::printf("tile order: %d failures\n", failures);
  return failures != 0;
}
