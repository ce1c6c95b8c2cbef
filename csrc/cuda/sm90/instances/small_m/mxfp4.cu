#include "cuda/sm90/registry/small_m.cuh"

namespace tileon::sm90 {
template KernelFunction<FewRowsParams> find_few_rows<ElementType::kE2M1, ElementType::kE2M1, ScaleType::kE8M0>(int);
}
