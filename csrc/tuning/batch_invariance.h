// Whether a row's result may depend on how many other rows there are: a setting of the process.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tileon {

// Where it holds, the choice of what multiplies looks neither at the number of rows nor at that of matrices, and takes
// no other sums' order for it. TILEON_BATCH_INVARIANT=1 sets it from the start.
inline std::atomic<bool> is_batch_invariant = [] {
  const char* setting = std::getenv("TILEON_BATCH_INVARIANT");
  return setting != nullptr && std::strcmp(setting, "1") == 0;
}();

}  // namespace tileon
