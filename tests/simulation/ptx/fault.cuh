// A store to nowhere, which ends the kernel.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void fault() { simulation::fault("the kernel's own fault"); }

}  // namespace tileon::ptx
