// What the host hands to the gemv, and its sizes.
#pragma once

#include <cstdint>

#include "../../../problem.h"

namespace tileon::sm90 {

struct GemvParams {
  GemmProblem problem;
  int64_t first_batch;  // of this launch
};

constexpr int kGemvThreads = 256;
constexpr int kColumnsPerWarp = 2;
constexpr int kPerLoad = 8;  // elements of 16 bytes

// The row of a, up to a whole load.
constexpr int gemv_shared_bytes(int64_t k) { return static_cast<int>(k / kPerLoad + 1) * 16; }

}  // namespace tileon::sm90
