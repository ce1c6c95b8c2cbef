// PTX ISA: "bar, barrier".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void barrier_sync(int id, int threads, Site where = Site::here()) { simulation::sync_named(id, threads, where); }
inline void barrier_arrive(int id, int threads, Site where = Site::here()) {
  simulation::arrive_named(id, threads, where);
}

}  // namespace tileon::ptx
