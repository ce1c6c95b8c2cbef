#include "cuda/sm90/registry/small_m.cuh"

namespace tileon::sm90 {
template KernelFunction<SmallMParams> find_small_m<ElementType::kE2M1, ElementType::kE2M1, ScaleType::kE4M3>(int);
}
