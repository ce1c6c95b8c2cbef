#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda/sm90/registry/fp8.cuh"

namespace tileon::sm90 {
template KernelFunction<KernelParams> find_float8<__nv_fp8_e4m3, __nv_fp8_e5m2, __half>(int);
}
