// PTX ISA: "elect.sync".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline bool elect_one(Site where = Site::here()) { return simulation::elect_one(where); }

}  // namespace tileon::ptx
