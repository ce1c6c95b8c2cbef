#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<FactorParams> find_kernel<BlockScaledKernels<Operands::kFp8RowsPromoted, DType::kFloat16>>(int);
template KernelFunction<FactorParams> find_kernel<BlockScaledKernels<Operands::kFp8RowsPromoted, DType::kBFloat16>>(
    int);
}  // namespace tileon::sm90
