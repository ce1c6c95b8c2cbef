// CUDA's error codes as exceptions with a text for people.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace tileon {

// `what` says what was tried, as in "launching sm80_mma_64x64x64".
inline void check_cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that is not sticky is not reported a second time elsewhere
  throw std::runtime_error(std::string("tileon: ") + what + ": " + cudaGetErrorName(code) + ": " +
                           cudaGetErrorString(code));
}

}  // namespace tileon
