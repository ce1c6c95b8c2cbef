#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<ScaledParams> find_kernel<BlockScaledKernels<Operands::kBFloat16, DType::kFloat16>>(int);
template KernelFunction<ScaledParams> find_kernel<BlockScaledKernels<Operands::kBFloat16, DType::kBFloat16>>(int);
}  // namespace tileon::sm90
