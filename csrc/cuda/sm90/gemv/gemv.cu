#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../rows.h"
#include "kernel.cuh"

namespace tileon::sm90 {

template <typename Element>
const void* find_gemv() {
  return reinterpret_cast<const void*>(&gemv<Element>);
}
template const void* find_gemv<__half>();
template const void* find_gemv<__nv_bfloat16>();

}  // namespace tileon::sm90
