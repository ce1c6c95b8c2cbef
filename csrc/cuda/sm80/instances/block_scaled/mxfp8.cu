#include "cuda/sm80/registry/block_scaled.cuh"

namespace tileon::sm80 {
template void run_block_scaled<ElementType::kE4M3, ElementType::kE4M3, ScaleType::kE8M0>(int, const BlockScaledProblem&,
                                                                                         cudaStream_t);
}
