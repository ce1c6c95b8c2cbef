#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_kernel<Fp8Kernels<kE5M2, kE4M3, DType::kFloat16>>(int);
template KernelFunction<KernelParams> find_kernel<Fp8Kernels<kE5M2, kE4M3, DType::kBFloat16>>(int);
}  // namespace tileon::sm90
