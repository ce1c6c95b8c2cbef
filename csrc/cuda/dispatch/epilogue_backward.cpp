// _epilogue_backward on CUDA tensors.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <string>
#include <tuple>

#include "checks/epilogue_backward.h"
#include "cuda/dispatch/device.h"
#include "cuda/elementwise/epilogue_backward.h"
#include "entry/registration.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

std::tuple<Tensor, Tensor> epilogue_backward(const Tensor& grad, const std::optional<Tensor>& saved,
                                             const std::string& activation, double slope, ScalarType out_dtype,
                                             std::optional<ScalarType> bias_dtype) {
  const EpilogueBackwardArguments arguments{grad, saved, activation, slope, out_dtype, bias_dtype};
  EpilogueBackwardProblem problem = check_epilogue_backward(arguments);
  const EpilogueGradients out = bind_outputs(problem, arguments);
  const int device = grad.get_device_index();
  const CurrentDevice current_device(device);
  const int sm_count = gpu_of("_epilogue_backward", device).sm_count;
  const int64_t bytes = epilogue_backward_workspace(problem, sm_count);
  std::optional<Tensor> workspace;
  if (bytes > 0) workspace = allocate("_epilogue_backward", grad, {1, {bytes}}, ScalarType::Byte);
  run_epilogue_backward(problem, workspace ? workspace->mutable_data_ptr() : nullptr, sm_count,
                        current_stream("_epilogue_backward", device));
  record_kernel("epilogue_backward");
  log_call(problem);
  return {out.grad_z, out.grad_bias};
}

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CUDA, m) { m.impl("_epilogue_backward", TORCH_BOX(&tileon::epilogue_backward)); }
