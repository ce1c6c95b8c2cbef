#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_kernel<DenseKernels<DType::kFloat16, Major::kMn, Major::kMn>>(int);
}
