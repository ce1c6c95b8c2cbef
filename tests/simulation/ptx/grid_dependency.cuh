// PTX ISA: "griddepcontrol".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void grid_dependency_wait(Site where = Site::here()) { simulation::wait_for_grid(where); }
inline void grid_dependency_launch(Site where = Site::here()) { simulation::launch_dependents(where); }

}  // namespace tileon::ptx
