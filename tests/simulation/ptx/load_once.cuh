// Global memory that is read once, straight into registers.
#pragma once

namespace tileon::ptx {

template <typename T>
inline void pin(const T*&) {}

// PTX ISA, "ld.global.nc". Words that are not wanted hold anything: here ones.
inline uint4 load_once_16(const void* global, bool is_wanted) {
  return is_wanted ? *static_cast<const uint4*>(global) : uint4{~0u, ~0u, ~0u, ~0u};
}

}  // namespace tileon::ptx
