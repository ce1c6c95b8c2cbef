// PTX ISA: "mbarrier".
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

}  // namespace tileon::ptx
