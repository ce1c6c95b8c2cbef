#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kBF16, kE2M1, kE8M0>>(int);
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kBF16, kE2M1, ScaleType::kE4M3>>(int);
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kBF16, kE4M3, kE8M0>>(int);
template KernelFunction<SmallMParams> find_kernel<SmallMKernels<kF16, kE2M1, ScaleType::kE4M3>>(int);
}  // namespace tileon::sm90
