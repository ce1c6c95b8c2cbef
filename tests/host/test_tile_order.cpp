// Every tile of the output is visited exactly once, whatever the sizes and the group, and the order with prepared
// divisions is the same.
#include <cstdio>
#include <vector>

#include "cuda/common/tile_order.h"

int main() {
  int failures = 0;
  for (int group_m : {1, 2, 4, 8, 16}) {
    for (int tiles_m = 1; tiles_m <= 20; ++tiles_m) {
      for (int tiles_n = 1; tiles_n <= 9; ++tiles_n) {
        const tileon::TileOrder order{tiles_m, tiles_n, group_m};
        const tileon::FastTileOrder fast_order(order);
        std::vector<int> visits(tiles_m * tiles_n, 0);
        for (int tile = 0; tile < order.count(); ++tile) {
          const tileon::TileCoordinate at = order.at(tile);
          const bool inside = at.m >= 0 && at.m < tiles_m && at.n >= 0 && at.n < tiles_n;
          if (inside) ++visits[at.m * tiles_n + at.n];
          const tileon::TileCoordinate fast_at = fast_order.at(tile);
          if (fast_at.m != at.m || fast_at.n != at.n) ++failures;
          if (!inside || at.m / group_m != tile / (group_m * tiles_n)) ++failures;
        }
        for (int count : visits) failures += count != 1;
      }
    }
  }
  for (int divisor : {1, 2, 3, 5, 7, 64, 100, 1000, 65535, 65536, 65537, 0x40000000, 0x7fffffff}) {
    const tileon::FastDivisor fast(divisor);
    for (int64_t near = 0; near <= 0x7fffffff; near += near < 4 * int64_t{divisor} ? divisor : 0x0fedcba9) {
      for (int64_t dividend = near - 1; dividend <= near + 1; ++dividend) {
        if (dividend < 0 || dividend > 0x7fffffff) continue;
        failures += fast.divide(static_cast<int>(dividend)) != dividend / divisor;
      }
    }
  }
  std::printf("tile order: %d failures\n", failures);
  return failures != 0;
}
