#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/sm90/registry/block_scaled.cuh"

namespace tileon::sm90 {
template KernelFunction<ParamsOf<Route::kBFloat16>> find_block_scaled<Route::kBFloat16, __half>(int);
}
