// What the host hands to a Hopper kernel that multiplies prepared block-scaled operands.
#pragma once

#include <cstdint>

#include "cuda/sm90/layout/encoding.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

// `problem` is that of the prepared operands (prepared_problem).
struct ScaledParams : KernelParams {
  const float* global_scale;  // one element, or null: 1
  // Where the first CTA leaves whether a word of the preparation is set, of which the kernel behind this one would have
  // too many to look at: one a consuming warp. Null where nobody asks.
  uint32_t* summary;
  const uint32_t* words;
  int word_count;
  const uint8_t* exponents_a;  // of narrow rows (prepare.h)
  const uint8_t* exponents_b;
};

// Of kernels that look which encoding the data have decided for.
struct EncodingParams {
  EncodingChoice choice;
  ScaledParams int8, bfloat16;
  ScaledParams float8;  // only where the choice allows it
};
static_assert(sizeof(EncodingParams) <= 4096, "a kernel's parameters");

}  // namespace tileon::sm90
