#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<EncodingParams> find_kernel<BlockScaledKernels<Operands::kE5M2, DType::kFloat16>>(int);
template KernelFunction<EncodingParams> find_kernel<BlockScaledKernels<Operands::kE5M2, DType::kBFloat16>>(int);
}  // namespace tileon::sm90
