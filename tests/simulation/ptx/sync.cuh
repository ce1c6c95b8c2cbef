// PTX ISA: "elect.sync", "bar", "barrier.cluster", "mapa", "ld" of .shared::cluster, "fence", "griddepcontrol".
// How threads meet, of a warp, a CTA or a cluster, and what they see of each other: elections, named barriers, the
// cluster's barrier and memory, fences, programmatic dependent launch; a warp's budget of registers; and how a watchdog
// ends a wait.
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

inline void cluster_arrive(Site where = Site::here()) { simulation::cluster_arrive(true, where); }
inline void cluster_arrive_relaxed(Site where = Site::here()) { simulation::cluster_arrive(false, where); }
inline void cluster_wait(Site where = Site::here()) { simulation::cluster_wait(where); }
inline uint32_t map_to_cta(uint32_t shared, uint32_t rank) { return simulation::map_to_cta(shared, rank); }
inline uint32_t load_cluster_4(uint32_t address, Site where = Site::here()) {
  return simulation::load_cluster<uint32_t>(address, where);
}
inline float4 load_cluster_16(uint32_t address, Site where = Site::here()) {
  return simulation::load_cluster<float4>(address, where);
}

template <int kCount>
inline void release_registers(Site where = Site::here()) {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  simulation::set_registers(kCount, false, where);
}
template <int kCount>
inline void acquire_registers(Site where = Site::here()) {
  static_assert(kCount >= 24 && kCount <= 256 && kCount % 8 == 0);
  simulation::set_registers(kCount, true, where);
}

inline uint32_t opaque(uint32_t value) { return value; }
inline void pin(float&) {}

}  // namespace tileon::ptx
