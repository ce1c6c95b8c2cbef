#include "cuda/sm80/registry/instantiate.cuh"

namespace tileon::sm80 {
template bool launch_config<Kind::kE4M3>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kE4M3E5M2>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kE5M2E4M3>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kE5M2>(int, const Problem&, const KSlices&, cudaStream_t);
}  // namespace tileon::sm80
