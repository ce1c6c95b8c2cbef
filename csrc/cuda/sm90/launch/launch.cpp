#include "cuda/sm90/launch/launch.h"

#include <cstdlib>
#include <cstring>

namespace tileon::sm90 {

bool use_dependent_launch() {
  static const bool use = [] {
    const char* setting = std::getenv("TILEON_PDL");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return use;
}

}  // namespace tileon::sm90
