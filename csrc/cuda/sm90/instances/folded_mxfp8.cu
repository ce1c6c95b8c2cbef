#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<FoldedWeightParams> find_kernel<FoldedWeightKernels<kE4M3, kF16>>(int);
template KernelFunction<FoldedWeightParams> find_kernel<FoldedWeightKernels<kE4M3, kBF16>>(int);
}  // namespace tileon::sm90
