// What the rest of the library may know of the portable kernels (any GPU from Ampere on).
#pragma once

#include "cuda/runtime/backend.h"

namespace tileon::sm80 {

// Of matmul, and of block_scaled_matmul. They take every problem, need no scratch and leave no device flag. The other
// backends want the copies of block-scaled operands that this one wants.
extern const Backend kDenseBackend, kBlockScaledBackend;

// What the current device's image of these kernels was compiled for, major * 10 + minor: its own compute capability or,
// where the driver compiled it from PTX, an older one.
int image_capability();

// Whether the kernels that fetch every element by itself would take long enough for copies of the operands to pay.
bool pays_for_copies(const Problem& problem, const Gpu& gpu);

// Whether fp8 operands are multiplied faster as float16, which holds every fp8 number.
bool wants_widening(const Problem& problem, const Gpu& gpu);

}  // namespace tileon::sm80
