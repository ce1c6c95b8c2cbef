#include <cuda_bf16.h>

#include "cuda/sm90/registry/cluster_split_k.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_split_k<__nv_bfloat16, Major::kK, Major::kK>(int);
}
