// Everything that PTX leaves open is decided here, by a seed: the same seed, the same run.
#pragma once

#include <cstdint>

namespace tileon::simulation {

// When something asynchronous happens: where it is issued, somewhere in between, or where somebody waits for it.
enum class Moment : int8_t { kAtOnce, kRandom, kLate };

// Which of the warps that can run runs next.
enum class Order : int8_t { kInTurn, kRandom, kNewestFirst, kByWarp };

struct Schedule {
  uint64_t seed = 0;
  Moment copies = Moment::kLate;      // cp.async
  Moment loads = Moment::kLate;       // TMA and bulk copies into shared memory
  Moment stores = Moment::kAtOnce;    // TMA out of shared memory
  Moment products = Moment::kAtOnce;  // wgmma
  Order order = Order::kInTurn;
  bool lanes_backwards = false;  // in a warp, lane 31 first
  bool overlaps_grids = true;    // a dependent grid starts as soon as it may
  bool false_waits = false;      // mbarrier.try_wait sometimes returns false for nothing
  int preempt_one_in = 0;        // an instruction of ptx/ gives way to another warp; 0: never
  int clusters_alive = 2;

  // PTX says nothing about when the lanes of a warp run between the instructions that all of them take part in. GPUs
  // run lanes together that took the same branches, and kernels may rely on it unknowingly: false models that (a warp's
  // lanes all run up to where they wait before another warp runs), true what PTX promises.
  bool independent_lanes = false;

  // 0: data come late and are read at once. 1: they come at once and are read late. 2: everything late. 3: everything
  // at once. Others: anything.
  static Schedule from_seed(uint64_t seed, bool independent_lanes);
};

extern Schedule schedule;

void seed_random_numbers(uint64_t seed);
uint64_t random_number();
inline bool one_in(int count) { return random_number() % static_cast<unsigned>(count) == 0; }

// Whether something that was just issued happens now.
inline bool happens_now(Moment moment) { return moment == Moment::kAtOnce || (moment == Moment::kRandom && one_in(4)); }

}  // namespace tileon::simulation
