#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kBF16, kE4M3, ScaleType::kFloat32>>(int);
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kBF16, DType::kInt8, ScaleType::kFloat32>>(int);
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kF16, kE4M3, ScaleType::kFloat32>>(int);
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kF16, DType::kInt8, ScaleType::kFloat32>>(int);
}  // namespace tileon::sm90
