// PTX ISA: "prmt".
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::ptx {

using simulation::Site;

inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = low | uint64_t{high} << 32;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> 4 * i & 0xf;
    const auto byte = static_cast<uint8_t>(bytes >> 8 * (nibble & 7));
    const uint32_t sign = (byte & 0x80) != 0 ? 0xff : 0;
    word |= ((nibble & 8) != 0 ? sign : byte) << 8 * i;
  }
  return word;
}

}  // namespace tileon::ptx
