#include "cuda/sm80/registry/block_scaled.cuh"

namespace tileon::sm80 {
template void run_block_scaled<DType::kFloat4E2M1, DType::kFloat4E2M1, ScaleType::kE8M0>(int, const Problem&,
                                                                                         cudaStream_t);
}
