// From a warp's fragments of wgmma to rows of float32 in shared memory.
#pragma once

namespace tileon::sm90 {

// Writes kColumns of wgmma's columns of a warp's 16 rows to `slab`, where its first row and column go. Rows of the slab
// are rows of the output: where the operands are swapped, those are wgmma's columns.
template <bool kSwapAb, int kPitch, int kColumns>
__device__ __forceinline__ void write_fragments(float* slab, const float* fragments) {
  const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;  // wgmma's
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // eight rows apart
      const float first = fragments[j * 4 + half * 2], second = fragments[j * 4 + half * 2 + 1];
      if constexpr (kSwapAb) {
        slab[(column + j * 8) * kPitch + row + half * 8] = first;
        slab[(column + j * 8 + 1) * kPitch + row + half * 8] = second;
      } else {
        *reinterpret_cast<float2*>(slab + (row + half * 8) * kPitch + column + j * 8) = {first, second};
      }
    }
  }
}

}  // namespace tileon::sm90
