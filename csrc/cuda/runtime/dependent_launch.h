// Programmatic dependent launch, by which a kernel starts while the one before it in the stream still runs.
#pragma once

#include <cstdlib>
#include <cstring>

namespace tileon {

constexpr int kOverlapCapability = 90;  // from which on ptx::grid_dependency_wait is compiled to a wait

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
