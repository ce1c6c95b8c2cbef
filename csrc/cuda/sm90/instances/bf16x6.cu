#include "cuda/sm90/registry/instantiate.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_kernel<Bf16x6Kernels>(int);
}
