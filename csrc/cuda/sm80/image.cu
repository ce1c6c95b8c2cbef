// Which of the library's images of these kernels a GPU runs.
#include "cuda/runtime/error.h"
#include "cuda/sm80/sm80.h"

namespace tileon::sm80 {
namespace {

__global__ void compiled_as_the_others() {}

}  // namespace

int image_capability() {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, compiled_as_the_others), "asking which image a GPU runs");
  return attributes.ptxVersion;  // of native code too
}

}  // namespace tileon::sm80
