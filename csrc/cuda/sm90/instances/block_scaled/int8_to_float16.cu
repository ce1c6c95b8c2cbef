#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/sm90/registry/block_scaled.cuh"

namespace tileon::sm90 {
template KernelFunction<ParamsOf<Route::kInt8>> find_block_scaled<Route::kInt8, __half>(int);
}
