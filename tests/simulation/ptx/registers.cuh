// A warp's budget of registers, and what the compiler may know of values in them.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

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
