// PTX ISA: "cp.async.bulk", "cp.async.bulk.tensor", "cp.async.bulk.wait_group", "prefetch".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

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
