// PTX ISA: "barrier.cluster", "mapa", "ld" of .shared::cluster.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

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

}  // namespace tileon::ptx
