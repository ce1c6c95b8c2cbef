#include <cuda_bf16.h>

#include "../rows.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_gemm<__nv_bfloat16, Major::kMn, Major::kK>(int);
}
