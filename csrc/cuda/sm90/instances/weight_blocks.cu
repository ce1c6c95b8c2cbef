#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<WeightBlocksParams> find_kernel<WeightBlocksKernels<kBF16>>(int);
template KernelFunction<WeightBlocksParams> find_kernel<WeightBlocksKernels<kF16>>(int);
template KernelFunction<WeightBlocksParams> find_kernel<Clustered<WeightBlocksKernels<kBF16>>>(int);
template KernelFunction<WeightBlocksParams> find_kernel<Clustered<WeightBlocksKernels<kF16>>>(int);
}  // namespace tileon::sm90
