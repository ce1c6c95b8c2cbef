// A lane's share of a row that is quantized, as it is in memory, and the largest magnitude of it and of neighbouring
// lanes' and warps'.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/common/convert.cuh"
#include "cuda/elementwise/row_walk.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/ptx/shared.cuh"

namespace tileon {

constexpr int kLaneElements = 16;
constexpr int kVectorBytes = 16;  // of a load

// A lane's numbers as they are in memory.
template <typename Element>
struct alignas(kVectorBytes) LaneNumbers {
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;

  Element numbers[kLaneElements];

  __device__ __forceinline__ void gather(const Element* from, int64_t stride) {
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) numbers[i] = from[i * stride];
  }

  // Two numbers of 16 bits.
  __device__ __forceinline__ Pair& pair(int i) { return reinterpret_cast<Pair*>(numbers)[i]; }
  __device__ __forceinline__ const Pair& pair(int i) const { return reinterpret_cast<const Pair*>(numbers)[i]; }

  // Numbers 2 i and 2 i + 1.
  __device__ __forceinline__ float2 two(int i) const {
    if constexpr (std::is_same_v<Element, float>) {
      return {numbers[2 * i], numbers[2 * i + 1]};
    } else {
      return widen(pair(i));
    }
  }

  __device__ __forceinline__ LaneNumbers magnitudes() const {
    LaneNumbers result;
    if constexpr (std::is_same_v<Element, float>) {
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) result.numbers[i] = fabsf(numbers[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kLaneElements / 2; ++i) result.pair(i) = __habs2(pair(i));
    }
    return result;
  }
};

// The largest of a lane's magnitudes; NaN where one of them is.
template <typename Element>
__device__ __forceinline__ float lane_amax(const LaneNumbers<Element>& magnitudes) {
  if constexpr (std::is_same_v<Element, float>) {
    float amax = 0;
#pragma unroll
    for (const float magnitude : magnitudes.numbers) amax = ptx::max_nan(amax, magnitude);
    return amax;
  } else {
    auto amax = magnitudes.pair(0);
#pragma unroll
    for (int i = 1; i < kLaneElements / 2; ++i) amax = __hmax2_nan(amax, magnitudes.pair(i));
    return widen(__hmax_nan(amax.x, amax.y));
  }
}

// The largest of kLanes neighbouring lanes, in each of them.
template <int kLanes>
__device__ __forceinline__ float lanes_amax(float amax) {
#pragma unroll
  for (int apart = 1; apart < kLanes; apart *= 2) amax = ptx::max_nan(amax, __shfl_xor_sync(0xffffffffu, amax, apart));
  return amax;
}

// The largest magnitude of a block, in each of its lanes.
template <int kLanesPerBlock, typename Element>
__device__ __forceinline__ float block_amax(const LaneNumbers<Element>& magnitudes) {
  return lanes_amax<kLanesPerBlock>(lane_amax(magnitudes));
}

// The largest of the threads of kWarps neighbouring warps, in each of them; NaN where one of them is. All threads of a
// CTA come here, once.
template <int kWarps>
__device__ __forceinline__ float warps_amax(float amax) {
  amax = lanes_amax<32>(amax);
  if constexpr (kWarps > 1) {
    auto& of_warps = ptx::static_shared<float[kWalkWarps]>();
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) of_warps[warp] = amax;
    __syncthreads();  // for all warps' numbers
#pragma unroll
    for (int i = 0; i < kWarps; ++i) amax = ptx::max_nan(amax, of_warps[warp / kWarps * kWarps + i]);
  }
  return amax;
}

}  // namespace tileon
