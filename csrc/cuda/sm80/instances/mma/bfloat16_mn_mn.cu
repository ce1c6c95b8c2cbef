#include <cuda_bf16.h>

#include "cuda/sm80/registry/mma.cuh"

namespace tileon::sm80 {
template bool run_mma<__nv_bfloat16, Major::kMn, Major::kMn>(int, const Problem&, cudaStream_t);
}
