// PTX ISA: "mbarrier", "cp.async.bulk", "cp.async.bulk.tensor", "cp.async.bulk.wait_group", "prefetch".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void mbarrier_init(uint32_t barrier, uint32_t arrivals, Site where = Site::here()) {
  simulation::mbarrier_init(barrier, arrivals, where);
}
inline void fence_mbarrier_init(Site where = Site::here()) { simulation::fence_mbarrier_init(where); }
inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes, Site where = Site::here()) {
  simulation::mbarrier_arrive_expect_tx(barrier, bytes, where);
}
inline void mbarrier_arrive(uint32_t barrier, Site where = Site::here()) {
  simulation::mbarrier_arrive(barrier, where);
}
inline bool mbarrier_try_wait(uint32_t barrier, uint32_t parity, Site where = Site::here()) {
  return simulation::mbarrier_try_wait(barrier, parity, where);
}

inline void tma_load_4d(uint32_t shared, const CUtensorMap& map, uint32_t barrier, int x, int y, int z, int w,
                        Site where = Site::here()) {
  const int at[] = {x, y, z, w};
  simulation::load_box(shared, map, barrier, at, 4, where);
}
inline void bulk_load(uint32_t shared, const void* global, uint32_t barrier, int bytes, Site where = Site::here()) {
  simulation::load_bytes(shared, global, barrier, bytes, where);
}
inline void tma_store_3d_by_warp(const CUtensorMap& map, uint32_t shared, int x, int y, int z,
                                 Site where = Site::here()) {
  const int at[] = {x, y, z};
  simulation::store_box_by_warp(map, shared, at, 3, where);
}
template <int kPending>
inline void tma_wait_read(Site where = Site::here()) {
  simulation::wait_for_store_reads(kPending, where);
}
inline void prefetch_tensor_map(const CUtensorMap& map, Site where = Site::here()) {
  simulation::prefetch_tensor_map(map, where);
}

}  // namespace tileon::ptx
