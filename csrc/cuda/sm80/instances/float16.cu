#include "cuda/sm80/registry/instantiate.cuh"

namespace tileon::sm80 {
template bool launch_config<Kind::kFloat16>(int, const Problem&, const KSlices&, cudaStream_t);
}
