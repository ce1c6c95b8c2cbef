// Operands of wgmma in shared memory, as descriptors tell.
#pragma once

#include <cstdint>

#include "state.h"

namespace tileon::simulation {

// PTX ISA, "Matrix Descriptor Format".
struct Descriptor {
  uint32_t start, leading, stride;
  int swizzle_bits;

  explicit Descriptor(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4) {
    constexpr int bits_of_mode[] = {0, 3, 2, 1};  // no swizzle, of 128 bytes, of 64, of 32
    swizzle_bits = bits_of_mode[bits >> 62];
    if (swizzle_bits != 3) fault("a descriptor without 128-byte swizzle, which is not simulated");
    constexpr uint64_t unused = uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{7} << 46 | uint64_t{0x3ff} << 52;
    if ((bits & unused) != 0) fault("a descriptor with bits set that have no meaning");
    if ((bits >> 49 & 7) != 0) fault("a descriptor with a base offset, which is not simulated");
  }
};

// What an operand is in shared memory: 32 bytes of k for each of `lines` lines (rows of a, columns of b), or, where it
// is transposed, 16 k for each of `lines` neighbours in pieces of 64.
struct Place {
  uint64_t descriptor;
  int lines;
  bool transposed;
};

// Calls `use(chunk number, 16 bytes of memory)`: chunk c is of line c / 2, or, transposed, of k c % 16 and lines from
// 8 (c / 16) on.
template <typename Use>
void for_each_chunk(Cta& cta, const Place& place, const Use& use) {
  const Descriptor descriptor(place.descriptor);
  const auto read = [&](int chunk, uint32_t address) {
    const uint32_t at = swizzled(address, descriptor.swizzle_bits);
    use(chunk, shared_of(cta, at, 16), at);
  };
  if (!place.transposed) {
    for (int line = 0; line < place.lines; ++line) {
      const auto l = static_cast<uint32_t>(line);
      const uint32_t first = descriptor.start + l / 8 * descriptor.stride + l % 8 * 128;
      read(line * 2, first);
      read(line * 2 + 1, first + 16);
    }
    return;
  }
  for (int eight = 0; eight < place.lines / 8; ++eight) {
    const auto e = static_cast<uint32_t>(eight);
    const uint32_t first = descriptor.start + e / 8 * descriptor.leading + e % 8 * 16;
    for (uint32_t k = 0; k < 16; ++k)
      read(eight * 16 + static_cast<int>(k), first + k / 8 * descriptor.stride + k % 8 * 128);
  }
}

}  // namespace tileon::simulation
