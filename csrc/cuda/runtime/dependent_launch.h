// Programmatic dependent launch of Hopper's kernels.
#pragma once

#include <cstdlib>
#include <cstring>

namespace tileon {

// Whether TILEON_PDL lets a kernel start while the one before it in the stream still runs: all of them wait for it
// before they touch memory.
inline bool use_dependent_launch() {
  static const bool use = [] {
    const char* setting = std::getenv("TILEON_PDL");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return use;
}

}  // namespace tileon
