#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<Float8WeightParams> find_kernel<Float8WeightKernels<kF16>>(int);
template KernelFunction<Float8WeightParams> find_kernel<Float8WeightKernels<kBF16>>(int);
}  // namespace tileon::sm90
