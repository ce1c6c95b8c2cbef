// PTX ISA: "rcp.approx.ftz". Subnormal numbers, going in and coming out, are taken for 0.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline float reciprocal(float x) {
  const auto flush = [](float y) { return std::fabs(y) < 0x1p-126f ? std::copysign(0.0f, y) : y; };
  return flush(1.0f / flush(x));
}

}  // namespace tileon::ptx
