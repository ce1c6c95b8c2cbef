// What the host hands to a Hopper kernel that multiplies prepared block-scaled operands.
#pragma once

#include <cstdint>

#include "../../../condition.h"
#include "../kernel_params.h"

namespace tileon::sm90 {

// `problem` is that of the prepared operands (prepared_problem).
struct ScaledParams : KernelParams {
  Condition condition;
  // Where the first CTA leaves whether a word of the preparation is set, of which the kernels behind this one would
  // have too many to look at: kSummaryWords, or one a consuming warp. Null where nobody asks.
  uint32_t* summary;
  Condition summarized;        // the words
  const float* global_scale;   // one element, or null: 1
  const uint8_t* exponents_a;  // of int8 rows (prepare.h)
  const uint8_t* exponents_b;
};

}  // namespace tileon::sm90
