#include "cuda/sm80/registry/instantiate.cuh"

namespace tileon::sm80 {
template bool launch_config<Kind::kTf32>(int, const Problem&, const KSlices&, cudaStream_t);
}
