// How tests steer the simulated GPU.
#pragma once

#include <string>

#include "schedule.h"

namespace tileon::simulation {

// "h200", "h200_slice", "h200_context" or "a100"; without a call TILEON_SIMULATED_GPU says, or it is an H200. False for
// other names.
bool choose_device(const std::string& name);

// Where it is on, a launch returns at once, and grids run at the next synchronization: so a dependent grid can overlap
// the one in front of it. Otherwise each runs when it is launched.
void keep_launches(bool on);

// Takes up a schedule, and forgets the last fault.
void begin_run(const Schedule& wanted);

// Runs what was launched. False at a fault.
bool synchronize();

}  // namespace tileon::simulation
