// What the tests of the whole library steer: which schedule the next launches run by.
#include <cstdint>

#include "runtime.h"

// Forgets the last fault, too, after which no launch works.
extern "C" void simulation_begin(uint64_t seed) {
  using tileon::simulation::Schedule;
  tileon::simulation::begin_run(Schedule::from_seed(seed, false));
}
