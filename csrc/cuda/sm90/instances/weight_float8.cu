#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<Float8WeightParams> find_kernel<Float8WeightKernels<kE5M2, kF16>>(int);
template KernelFunction<Float8WeightParams> find_kernel<Float8WeightKernels<kE5M2, kBF16>>(int);
template KernelFunction<Float8WeightParams> find_kernel<Float8WeightKernels<kE4M3, kF16>>(int);
template KernelFunction<Float8WeightParams> find_kernel<Float8WeightKernels<kE4M3, kBF16>>(int);
}  // namespace tileon::sm90
