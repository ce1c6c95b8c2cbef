#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<WeightParams> find_kernel<WeightKernels<kE4M3, ScaleType::kE8M0, kF16>>(int);
template KernelFunction<WeightParams> find_kernel<WeightKernels<kE4M3, ScaleType::kE8M0, kBF16>>(int);
template KernelFunction<WeightParams> find_kernel<Clustered<WeightKernels<kE4M3, ScaleType::kE8M0, kF16>>>(int);
template KernelFunction<WeightParams> find_kernel<Clustered<WeightKernels<kE4M3, ScaleType::kE8M0, kBF16>>>(int);
}  // namespace tileon::sm90
