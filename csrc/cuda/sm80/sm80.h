// What the rest of the library may know of the portable kernels (any GPU from Ampere on).
#pragma once

#include "cuda/runtime/backend.h"

namespace tileon::sm80 {

// Of matmul; of products of two block-scaled operands; and of all products with scales. They take every problem of
// theirs, need scratch only where k may be sliced, and leave no device flag.
extern const Backend kDenseBackend, kBlockScaledBackend, kDecodedBackend;

// A kernel that does nothing. Its image on a GPU was compiled for the capability that all portable kernels' images
// there were: the GPU's own or, where the driver compiled the image from PTX, an older one.
extern void (*const kKernelOfImage)();

// Whether fp8 operands may be multiplied faster as float16, which holds every fp8 number.
bool wants_widening(const Problem& problem, const Gpu& gpu);

}  // namespace tileon::sm80
