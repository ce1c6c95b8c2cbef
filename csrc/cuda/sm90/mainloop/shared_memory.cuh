// The parts of a kernel's shared memory; heuristics/dense.h has their sizes.
#pragma once

#include <cstdint>

#include "cuda/common/pipeline.cuh"
#include "cuda/sm90/heuristics/dense.h"

namespace tileon::sm90 {

constexpr int kExponentsBegin = 512;  // of epilogue/accumulator_scale.cuh, behind the barriers
constexpr int exponents_of_consumer(const TileConfig& tile) { return (tile.mma_columns() + 127) / 128 * 128; }
static_assert(Pipeline::kBarrierBytes <= kExponentsBegin);

template <TileConfig kConfig>
struct SharedMemory {
  unsigned char* base;
  uint32_t address;  // of base, in the shared window

  // `base` is the dynamic shared memory. Nothing is static, so it begins at a multiple of 1024 bytes, as swizzled tiles
  // want it.
  __device__ __forceinline__ explicit SharedMemory(unsigned char* dynamic)
      : base(dynamic), address(static_cast<uint32_t>(__cvta_generic_to_shared(dynamic))) {
    if (kWatchdog && address % 1024 != 0) ptx::fault();
  }

  __device__ __forceinline__ Pipeline pipeline(int stage_bytes, int stages) const {
    return Pipeline(address, address + pipeline_begin(kConfig), stage_bytes, stages);
  }
  __device__ __forceinline__ float* bias(int consumer) const {
    return reinterpret_cast<float*>(base + kBarrierBytes + consumer * kBiasBytes);
  }
  // A byte for each of a tile's columns, in multiples of a warpgroup's threads.
  __device__ __forceinline__ uint8_t* column_exponents(int consumer) const {
    constexpr int bytes = exponents_of_consumer(kConfig);
    static_assert(kExponentsBegin + kConfig.consumers * bytes <= kBarrierBytes);
    return base + kExponentsBegin + consumer * bytes;
  }
  // Where warp `warp` of the consumers stores through.
  __device__ __forceinline__ unsigned char* warp_store(int warp) const {
    return base + staging_begin(kConfig) + warp * warp_store_bytes(kConfig);
  }
  __device__ __forceinline__ float* slab() const { return reinterpret_cast<float*>(base + pipeline_begin(kConfig)); }
};

}  // namespace tileon::sm90
