// PTX ISA: "barrier.cluster", "mapa", "mbarrier", "st.async", "ld" of .shared::cluster.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void cluster_arrive(Site where = Site::here()) { simulation::cluster_arrive(true, where); }
inline void cluster_arrive_relaxed(Site where = Site::here()) { simulation::cluster_arrive(false, where); }
// As an arrival at another CTA's barrier, it tells all that the thread knows.
inline void cluster_arrive_having_read(Site where = Site::here()) { simulation::cluster_arrive(true, where); }
inline void cluster_wait(Site where = Site::here()) { simulation::cluster_wait(where); }
inline void mbarrier_arrive_cluster(uint32_t address, Site where = Site::here()) {
  simulation::mbarrier_arrive_cluster(address, where);
}
inline bool mbarrier_try_wait_cluster(uint32_t barrier, uint32_t parity, Site where = Site::here()) {
  return simulation::mbarrier_try_wait(barrier, parity, where);
}
inline void store_async_16(uint32_t address, const float* values, uint32_t barrier, Site where = Site::here()) {
  simulation::store_async(address, {values[0], values[1], values[2], values[3]}, barrier, where);
}
inline uint32_t map_to_cta(uint32_t shared, uint32_t rank) { return simulation::map_to_cta(shared, rank); }
inline uint32_t load_cluster_4(uint32_t address, Site where = Site::here()) {
  return simulation::load_cluster<uint32_t>(address, where);
}
inline float4 load_cluster_16(uint32_t address, Site where = Site::here()) {
  return simulation::load_cluster<float4>(address, where);
}

}  // namespace tileon::ptx
