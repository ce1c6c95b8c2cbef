#include "cuda/sm80/registry/mma.cuh"

namespace tileon::sm80 {

bool run_gather_float8(int row, const Problem& problem, cudaStream_t stream) {
  return run_mma<AnyFloat8, Major::kK, Major::kK, AnyFloat8>(row, problem, stream);
}

}  // namespace tileon::sm80
