// How threads meet and what they see of each other: elections, named barriers, fences, programmatic dependent launch,
// and how a watchdog ends a wait.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline bool elect_one(Site where = Site::here()) { return simulation::elect_one(where); }

inline void barrier_sync(int id, int threads, Site where = Site::here()) { simulation::sync_named(id, threads, where); }
inline void barrier_arrive(int id, int threads, Site where = Site::here()) {
  simulation::arrive_named(id, threads, where);
}

inline void fence_proxy_async(Site where = Site::here()) { simulation::fence_proxy_async(where); }

inline void grid_dependency_wait(Site where = Site::here()) { simulation::wait_for_grid(where); }
inline void grid_dependency_launch(Site where = Site::here()) { simulation::launch_dependents(where); }

inline void fault() { simulation::fault("the kernel's own fault"); }

}  // namespace tileon::ptx
