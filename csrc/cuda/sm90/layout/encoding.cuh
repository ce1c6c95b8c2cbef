// On the device: which encoding the data of mxfp4 have decided for, and its codes as e5m2 (layout/encoding.h).
#pragma once

#include <cstdint>

#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/sync.cuh"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// Collective for the CTA. Waits for the kernels before this one.
__device__ __forceinline__ Encoding encoding_of(const EncodingChoice& choice) {
  ptx::grid_dependency_wait();
  uint32_t beyond = 0;
  for (int i = static_cast<int>(threadIdx.x); i < choice.count; i += static_cast<int>(blockDim.x))
    beyond |= choice.words[i];
  uint32_t any = __syncthreads_or(beyond & kBeyondInt8) != 0 ? kBeyondInt8 : 0;
  if (choice.fast_accum && any != 0 && __syncthreads_or(beyond & kBeyondFloat8) != 0) any |= kBeyondFloat8;
  return encoding_of(any, choice.fast_accum);
}

// Their magnitudes, looked up. e5m2 holds 2^-13 to 2^13 times every code.
class Float8Table {
 public:
  __device__ __forceinline__ explicit Float8Table(int exponent) {
    const uint32_t added = static_cast<uint32_t>(exponent) * 4;  // modulo 2^32
    low_ = 0x3e3c3800 + added * 0x010101 * 0x100;                // 0, 0.5, 1, 1.5
    high_ = 0x46444240 + added * 0x01010101;                     // 2, 3, 4, 6
  }

  // The even codes of eight, and the odd ones.
  __device__ __forceinline__ void decode(uint32_t codes, uint32_t& even, uint32_t& odd) const {
    const uint32_t magnitudes = codes & 0x77777777;
    const uint32_t first = ptx::prmt(low_, high_, magnitudes), second = ptx::prmt(low_, high_, magnitudes >> 16);
    even = ptx::prmt(first, second, 0x6420) | (codes << 4 & 0x80808080);
    odd = ptx::prmt(first, second, 0x7531) | (codes & 0x80808080);
  }

 private:
  uint32_t low_, high_;
};

}  // namespace tileon::sm90
