// PTX ISA: "mma.sync" of .f64.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline void mma_m16n8k4(double (&d)[4], const double (&a)[2], double b, Site where = Site::here()) {
  simulation::mma_float64(d, a, b, where);
}

}  // namespace tileon::ptx
