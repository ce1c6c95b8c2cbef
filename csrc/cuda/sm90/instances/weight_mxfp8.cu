#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<WeightParams> find_kernel<WeightKernels<kBF16, kE4M3, ScaleType::kE8M0, kF16>>(int);
template KernelFunction<WeightParams> find_kernel<WeightKernels<kBF16, kE4M3, ScaleType::kE8M0, kBF16>>(int);
template KernelFunction<WeightParams> find_kernel<Clustered<WeightKernels<kBF16, kE4M3, ScaleType::kE8M0, kF16>>>(int);
template KernelFunction<WeightParams> find_kernel<Clustered<WeightKernels<kBF16, kE4M3, ScaleType::kE8M0, kBF16>>>(int);
}  // namespace tileon::sm90
