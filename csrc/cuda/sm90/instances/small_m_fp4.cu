#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<SmallMParams>
find_kernel<SmallMKernels<DType::kFloat4E2M1, DType::kFloat4E2M1, ScaleType::kE8M0>>(int);
template KernelFunction<SmallMParams>
find_kernel<SmallMKernels<DType::kFloat4E2M1, DType::kFloat4E2M1, ScaleType::kE4M3>>(int);
}  // namespace tileon::sm90
