#include "cuda/sm90/registry/gemm.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_kernel<Bf16x6Kernels>(int);
}
