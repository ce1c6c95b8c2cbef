#include "schedule.h"

namespace tileon::simulation {

Schedule schedule;

namespace {

uint64_t random_state = 0;

// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): SplitMix64.
uint64_t next_of(uint64_t& state) {
  uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

void seed_random_numbers(uint64_t seed) { random_state = seed; }
uint64_t random_number() { return next_of(random_state); }

Schedule Schedule::from_seed(uint64_t seed, bool independent_lanes) {
  Schedule result;
  result.seed = seed;
  result.independent_lanes = independent_lanes;
  if (seed == 1 || seed == 3) {
    result.copies = result.loads = Moment::kAtOnce;
    result.order = Order::kNewestFirst;
    result.lanes_backwards = true;
    result.overlaps_grids = false;
  }
  if (seed == 1 || seed == 2) result.stores = result.products = Moment::kLate;
  if (seed < 4) return result;
  uint64_t state = seed;
  const auto below = [&state](uint64_t count) { return next_of(state) % count; };
  constexpr Moment moments[] = {Moment::kRandom, Moment::kLate, Moment::kAtOnce};
  constexpr Order orders[] = {Order::kRandom, Order::kByWarp, Order::kNewestFirst};
  result.copies = moments[below(3)];
  result.loads = moments[below(3)];
  result.stores = moments[below(3)];
  result.products = moments[below(3)];
  result.order = orders[below(3)];
  result.lanes_backwards = below(2) == 0;
  result.overlaps_grids = below(3) > 0;
  result.false_waits = below(2) == 0;
  result.preempt_one_in = below(2) == 0 ? 0 : 8;
  result.clusters_alive = static_cast<int>(1 + below(4));
  return result;
}

}  // namespace tileon::simulation
