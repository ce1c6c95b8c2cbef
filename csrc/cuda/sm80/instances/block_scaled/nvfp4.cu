#include "cuda/sm80/registry/block_scaled.cuh"

namespace tileon::sm80 {
template void run_block_scaled<ElementType::kE2M1, ElementType::kE2M1, ScaleType::kE4M3>(int, const BlockScaledProblem&,
                                                                                         cudaStream_t);
}
