#include "cuda/sm90/registry/small_m.cuh"

namespace tileon::sm90 {
template KernelFunction<SmallMParams> find_small_m<ElementType::kE4M3, ElementType::kE4M3, ScaleType::kE8M0>(int);
}
