// On the device: which encoding the data of mxfp4 have decided for (layout/encoding.h).
#pragma once

#include <cstdint>

#include "cuda/ptx/shared.cuh"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// Collective for the CTA. Waits for the kernels behind which this kernel was launched: they leave the words.
__device__ __forceinline__ Encoding encoding_of(const EncodingChoice& choice) {
  ptx::grid_dependency_wait();
  uint32_t beyond = 0;
  for (int i = static_cast<int>(threadIdx.x); i < choice.count; i += static_cast<int>(blockDim.x))
    beyond |= choice.words[i];
  uint32_t any = __syncthreads_or(beyond & kBeyondInt8) != 0 ? kBeyondInt8 : 0;
  if (choice.fast_accum && any != 0 && __syncthreads_or(beyond & kBeyondFloat8) != 0) any |= kBeyondFloat8;
  return encoding_of(any, choice.fast_accum);
}

}  // namespace tileon::sm90
