#include <cuda_fp16.h>

#include "../rows.cuh"

namespace tileon::sm90 {
template const void* find_gemm<__half, Major::kMn, Major::kMn>(int);
}
