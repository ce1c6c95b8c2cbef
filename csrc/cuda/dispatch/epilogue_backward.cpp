// _epilogue_backward on CUDA tensors.
#include "entry/epilogue_backward.h"

#include <optional>

#include "cuda/dispatch/device.h"
#include "cuda/elementwise/elementwise.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

struct Cuda : CudaDevice {
  static constexpr const char* kOp = "_epilogue_backward";
  static void run(const EpilogueBackwardProblem& problem, const Tensor& grad) {
    const int device = grad.get_device_index();
    const CurrentDevice current_device(device);
    const int sm_count = gpu_of(kOp, device).sm_count;
    const int64_t bytes = epilogue_backward_workspace(problem, sm_count);
    std::optional<Tensor> workspace;
    if (bytes > 0) workspace = allocate(kOp, grad, {1, {bytes}}, ScalarType::Byte);
    run_epilogue_backward(problem, workspace ? workspace->mutable_data_ptr() : nullptr, sm_count,
                          current_stream(kOp, device));
    record_kernel("epilogue_backward");
    log_call(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CUDA, m) { tileon::EpilogueBackwardEntry<tileon::Cuda>::add_to(m); }
