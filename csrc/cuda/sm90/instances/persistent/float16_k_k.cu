#include <cuda_fp16.h>

#include "cuda/sm90/registry/persistent.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_gemm<__half, Major::kK, Major::kK>(int);
}
