#include "cuda/sm80/registry/block_scaled.cuh"

namespace tileon::sm80 {
template void run_block_scaled<DType::kFloat8E4M3, DType::kFloat4E2M1, ScaleType::kE8M0>(int, const Problem&,
                                                                                         cudaStream_t);
}
