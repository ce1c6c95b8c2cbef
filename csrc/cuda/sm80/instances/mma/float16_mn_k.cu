#include <cuda_fp16.h>

#include "cuda/sm80/registry/mma.cuh"

namespace tileon::sm80 {
template bool run_mma<__half, Major::kMn, Major::kK>(int, const Problem&, cudaStream_t);
}
