#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<SharedParams> find_kernel<StreamedKernels<DType::kBFloat16, Major::kK, Major::kK>>(int);
template KernelFunction<SharedParams> find_kernel<StreamedKernels<DType::kBFloat16, Major::kK, Major::kMn>>(int);
template KernelFunction<SharedParams> find_kernel<StreamedKernels<DType::kBFloat16, Major::kMn, Major::kK>>(int);
template KernelFunction<SharedParams> find_kernel<StreamedKernels<DType::kBFloat16, Major::kMn, Major::kMn>>(int);
}  // namespace tileon::sm90
