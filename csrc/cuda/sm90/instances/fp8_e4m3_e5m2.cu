#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_kernel<Fp8Kernels<kE4M3, kE5M2, DType::kFloat16>>(int);
template KernelFunction<KernelParams> find_kernel<Fp8Kernels<kE4M3, kE5M2, DType::kBFloat16>>(int);
}  // namespace tileon::sm90
