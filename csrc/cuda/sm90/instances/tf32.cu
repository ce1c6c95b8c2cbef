#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_kernel<Tf32Kernels<Major::kK, Major::kK>>(int);
template KernelFunction<KernelParams> find_kernel<Tf32Kernels<Major::kK, Major::kMn>>(int);
template KernelFunction<KernelParams> find_kernel<Tf32Kernels<Major::kMn, Major::kK>>(int);
}  // namespace tileon::sm90
