#include "cuda/sm90/registry/small_m.cuh"

namespace tileon::sm90 {
template KernelFunction<SmallMParams> find_small_m<DType::kFloat8E4M3, DType::kFloat8E4M3, ScaleType::kE8M0>(int);
}
