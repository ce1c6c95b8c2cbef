// The families of kernels behind sm90.h, each launched by a run_*.cpp. Every problem is one that the config supports.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"
#include "cuda/runtime/gpu.h"

namespace tileon::sm90 {

// fp8 products, by row `row` of kFp8Configs.
void run_float8(int row, const Problem& problem, const Gpu& gpu, cudaStream_t stream);

// Float32 products, by row `row` of kBf16x6Configs. `scratch` is as long as Bf16x3Scratch says, and begins at a
// multiple of 256. Returns the device flag under which the portable kernels must compute the product anew.
DeviceFlag run_float32(int row, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

// Block-scaled products of few rows of a, by tile kSmallMTiles[tile]; k may be 0.
void run_small_m(int tile, const Problem& problem, const Gpu& gpu, cudaStream_t stream);

}  // namespace tileon::sm90
