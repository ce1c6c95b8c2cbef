// PTX ISA: "membar, fence": fence.proxy.async.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void fence_proxy_async(Site where = Site::here()) { simulation::fence_proxy_async(where); }

}  // namespace tileon::ptx
