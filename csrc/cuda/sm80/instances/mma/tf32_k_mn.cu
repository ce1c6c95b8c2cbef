#include "cuda/sm80/registry/mma.cuh"

namespace tileon::sm80 {
template bool run_mma<float, Major::kK, Major::kMn>(int, const Problem&, cudaStream_t);
}
