#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kBF16, kE2M1, kE8M0>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kBF16, kE2M1, ScaleType::kE4M3>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kBF16, kE4M3, kE8M0>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kF16, kE2M1, kE8M0>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kF16, kE2M1, ScaleType::kE4M3>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kBF16, kE4M3, ScaleType::kFloat32>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kBF16, DType::kInt8, ScaleType::kFloat32>>(
    int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kF16, kE4M3, ScaleType::kFloat32>>(int);
template KernelFunction<DirectWeightParams> find_kernel<DirectWeightKernels<kF16, DType::kInt8, ScaleType::kFloat32>>(
    int);
}  // namespace tileon::sm90
