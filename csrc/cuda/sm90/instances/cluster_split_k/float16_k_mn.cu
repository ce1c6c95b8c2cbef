#include <cuda_fp16.h>

#include "cuda/sm90/registry/cluster_split_k.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_split_k<__half, Major::kK, Major::kMn>(int);
}
