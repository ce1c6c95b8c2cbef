// PTX ISA: "max" with .NaN.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline float max_nan(float x, float y) { return x != x || y != y ? x + y : x > y ? x : y; }

}  // namespace tileon::ptx
