#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<FoldedWeightParams> find_kernel<FoldedWeightKernels<kE2M1, kF16>>(int);
template KernelFunction<FoldedWeightParams> find_kernel<FoldedWeightKernels<kE2M1, kBF16>>(int);
}  // namespace tileon::sm90
