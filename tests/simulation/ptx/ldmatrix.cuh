// PTX ISA: "ldmatrix".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void ldmatrix_x4(uint32_t (&registers)[4], uint32_t shared, Site where = Site::here()) {
  simulation::load_matrices(registers, shared, false, where);
}
inline void ldmatrix_x4_trans(uint32_t (&registers)[4], uint32_t shared, Site where = Site::here()) {
  simulation::load_matrices(registers, shared, true, where);
}

}  // namespace tileon::ptx
