// The order in which tiles of the output are computed: grouped, so that tiles in flight together share operands in L2.
#pragma once

#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace tileon {

struct TileCoordinate {
  int m;  // in tiles
  int n;
};

// Tiles go down `group_m` rows of tiles before they move on to the next column, then to the next group of rows. A wave
// of 100 tiles so reads about 2 sqrt(100) operand panels where row-major order would read 101.
struct TileOrder {
  int tiles_m = 1;
  int tiles_n = 1;
  int group_m = 1;

  TILEON_HOST_DEVICE constexpr int64_t count() const { return static_cast<int64_t>(tiles_m) * tiles_n; }

  TILEON_HOST_DEVICE constexpr TileCoordinate at(int tile) const {
    const int tiles_per_group = group_m * tiles_n;  // group_m is at most 16: no overflow below 2^27 columns of tiles
    const int group = tile / tiles_per_group;
    const int first_m = group * group_m;
    const int rows = tiles_m - first_m < group_m ? tiles_m - first_m : group_m;  // the last group may be lower
    const int within = tile - group * tiles_per_group;
    return {first_m + within % rows, within / rows};
  }
};

// Division by a number that the host knows: a multiplication and a shift, where a division would take a GPU some
// hundred cycles before its first load. Exact for dividends from 0 to 2^31 - 1 and divisors from 1 to 2^31 - 1.
// Granlund and Montgomery, "Division by invariant integers using multiplication" (1994), figure 4.1.
class FastDivisor {
 public:
  FastDivisor() = default;

  constexpr explicit FastDivisor(int divisor)
      : divisor_(divisor), shift_(std::bit_width(static_cast<unsigned>(divisor - 1))) {
    const uint64_t excess = (uint64_t{1} << shift_) - static_cast<uint64_t>(divisor);
    multiplier_ = static_cast<uint32_t>((excess << 32) / static_cast<uint64_t>(divisor) + 1);
  }

  TILEON_HOST_DEVICE constexpr int divisor() const { return divisor_; }

  TILEON_HOST_DEVICE constexpr int divide(int dividend) const {
    const uint32_t n = static_cast<uint32_t>(dividend);
    const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier_) >> 32);
    return static_cast<int>((high + n) >> shift_);
  }

 private:
  int divisor_ = 1;
  uint32_t multiplier_ = 1;
  int shift_ = 0;
};

static_assert(FastDivisor(1).divide(7) == 7 && FastDivisor(7).divide(48) == 6 && FastDivisor(7).divide(49) == 7);
static_assert(FastDivisor(3).divide(0x7fffffff) == 0x7fffffff / 3 && FastDivisor(0x7fffffff).divide(0x7ffffffe) == 0);

// The order of TileOrder with its divisions prepared on the host. `group_m` is a power of two.
class FastTileOrder {
 public:
  FastTileOrder() = default;

  constexpr explicit FastTileOrder(const TileOrder& order)
      : full_groups_(order.tiles_m / order.group_m),
        group_shift_(std::bit_width(static_cast<unsigned>(order.group_m)) - 1),
        tiles_per_group_(order.group_m * order.tiles_n),
        last_rows_(order.tiles_m % order.group_m == 0 ? order.group_m : order.tiles_m % order.group_m) {}

  TILEON_HOST_DEVICE constexpr TileCoordinate at(int tile) const {
    const int group = tiles_per_group_.divide(tile);
    const int within = tile - group * tiles_per_group_.divisor();
    const bool is_full = group < full_groups_;
    const int column = is_full ? within >> group_shift_ : last_rows_.divide(within);
    const int rows = is_full ? 1 << group_shift_ : last_rows_.divisor();
    return {(group << group_shift_) + within - column * rows, column};
  }

 private:
  int full_groups_ = 1;  // of group_m rows of tiles
  int group_shift_ = 0;  // log2 of group_m
  FastDivisor tiles_per_group_;
  FastDivisor last_rows_;
};

static_assert(TileOrder{3, 2, 2}.at(0).m == 0 && TileOrder{3, 2, 2}.at(1).m == 1 && TileOrder{3, 2, 2}.at(2).n == 1);
static_assert(TileOrder{3, 2, 2}.at(4).m == 2 && TileOrder{3, 2, 2}.at(4).n == 0 && TileOrder{3, 2, 2}.at(5).n == 1);

static_assert(FastTileOrder(TileOrder{3, 2, 2}).at(3).m == 1 && FastTileOrder(TileOrder{3, 2, 2}).at(5).n == 1);

}  // namespace tileon
