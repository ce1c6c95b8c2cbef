// PTX ISA: "cp.async" and its groups.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void cp_async_16(uint32_t shared, const void* global, int bytes, Site where = Site::here()) {
  simulation::copy_async(shared, global, 16, bytes, where);
}
template <int kSize>
inline void cp_async_element(uint32_t shared, const void* global, int bytes, Site where = Site::here()) {
  static_assert(kSize == 4 || kSize == 8);
  simulation::copy_async(shared, global, kSize, bytes, where);
}
inline void cp_async_commit(Site where = Site::here()) { simulation::commit_copies(where); }
template <int kPending>
inline void cp_async_wait(Site where = Site::here()) {
  simulation::wait_for_copies(kPending, where);
}

}  // namespace tileon::ptx
