// No instructions.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline uint32_t opaque(uint32_t value) { return value; }
inline void pin(float&) {}

}  // namespace tileon::ptx
