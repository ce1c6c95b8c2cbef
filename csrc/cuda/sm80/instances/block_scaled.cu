#include "cuda/sm80/registry/instantiate.cuh"

namespace tileon::sm80 {
template bool launch_config<Kind::kMxfp8>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kMxfp4>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kMxE4M3E2M1>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kMxE2M1E4M3>(int, const Problem&, const KSlices&, cudaStream_t);
template bool launch_config<Kind::kNvfp4>(int, const Problem&, const KSlices&, cudaStream_t);
}  // namespace tileon::sm80
