#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<SharedFactorParams> find_kernel<SharedBlocksKernels<kF16>>(int);
template KernelFunction<SharedFactorParams> find_kernel<SharedBlocksKernels<kBF16>>(int);
template KernelFunction<SharedFactorParams> find_kernel<Clustered<SharedBlocksKernels<kF16>>>(int);
template KernelFunction<SharedFactorParams> find_kernel<Clustered<SharedBlocksKernels<kBF16>>>(int);
}  // namespace tileon::sm90
