#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<SharedFactorParams> find_kernel<WeightCodesKernels<kBF16, kE4M3>>(int);
template KernelFunction<SharedFactorParams> find_kernel<WeightCodesKernels<kBF16, DType::kInt8>>(int);
template KernelFunction<SharedFactorParams> find_kernel<WeightCodesKernels<kF16, kE4M3>>(int);
template KernelFunction<SharedFactorParams> find_kernel<WeightCodesKernels<kF16, DType::kInt8>>(int);
template KernelFunction<SharedFactorParams> find_kernel<Clustered<WeightCodesKernels<kBF16, kE4M3>>>(int);
template KernelFunction<SharedFactorParams> find_kernel<Clustered<WeightCodesKernels<kBF16, DType::kInt8>>>(int);
template KernelFunction<SharedFactorParams> find_kernel<Clustered<WeightCodesKernels<kF16, kE4M3>>>(int);
template KernelFunction<SharedFactorParams> find_kernel<Clustered<WeightCodesKernels<kF16, DType::kInt8>>>(int);
}  // namespace tileon::sm90
