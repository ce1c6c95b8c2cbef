// Quantizing on CUDA tensors: the Device of entry/quantize.h, as other entries need it too.
#pragma once

#include "core/elementwise_problems.h"
#include "cuda/dispatch/device.h"

namespace tileon {

struct CudaQuantize : CudaDevice {
  static void run(const QuantizeProblem& problem, const Tensor& x);
  static void run(const Nvfp4RowsProblem& problem, const Tensor& x);
};

}  // namespace tileon
