#include <cuda_bf16.h>

#include "cuda/sm90/registry/persistent.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_gemm<__nv_bfloat16, Major::kK, Major::kK>(int);
}
