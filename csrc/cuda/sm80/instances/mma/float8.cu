#include <cuda_fp8.h>

#include "cuda/sm80/registry/mma.cuh"

namespace tileon::sm80 {

template bool run_mma<__nv_fp8_e4m3, Major::kK, Major::kK, __nv_fp8_e4m3>(int, const Problem&, cudaStream_t);
template bool run_mma<__nv_fp8_e4m3, Major::kK, Major::kK, __nv_fp8_e5m2>(int, const Problem&, cudaStream_t);
template bool run_mma<__nv_fp8_e5m2, Major::kK, Major::kK, __nv_fp8_e4m3>(int, const Problem&, cudaStream_t);
template bool run_mma<__nv_fp8_e5m2, Major::kK, Major::kK, __nv_fp8_e5m2>(int, const Problem&, cudaStream_t);

}  // namespace tileon::sm80
