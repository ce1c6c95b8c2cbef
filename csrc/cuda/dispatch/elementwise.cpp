// quantize, _quantize_nvfp4_rows, _round_to_format, dequantize, pack_scales, unpack_scales and _epilogue_backward on
// CUDA tensors.
#include "cuda/dispatch/elementwise.h"

#include <optional>

#include "cuda/dispatch/device.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/runtime/dependent_launch.h"
#include "entry/epilogue_backward.h"
#include "entry/quantize.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

// On the device and the current stream of `like`, with a workspace of so many bytes. The log has the op's name, of a
// private one without the underscore.
template <typename Problem, typename Launch>
void run_on_device(const char* op, const Problem& problem, const Tensor& like, int64_t workspace_bytes,
                   const Launch& launch) {
  const int device = like.get_device_index();
  const CurrentDevice current_device(device);
  std::optional<Tensor> workspace;
  if (workspace_bytes > 0) workspace = allocate(op, like, {1, {workspace_bytes}}, ScalarType::Byte);
  launch(workspace ? workspace->mutable_data_ptr() : nullptr, current_stream(op, device));
  record_kernel(*op == '_' ? op + 1 : op);
  log_call(problem);
}

// The kernels that quantize wait by themselves for the one before them, and let the next one begin.
bool may_overlap(const Tensor& x) {
  return gpu_of("quantize", x.get_device_index()).image >= kOverlapCapability && use_dependent_launch();
}

struct Cuda : CudaQuantize {
  using CudaQuantize::run;
  static void run(const DequantizeProblem& problem, const Tensor& data) {
    run_on_device("dequantize", problem, data, 0, [&](void*, cudaStream_t stream) { run_dequantize(problem, stream); });
  }
  static void run(const ScalePackProblem& problem, const Tensor& scale) {
    run_on_device(problem.to_packed ? "pack_scales" : "unpack_scales", problem, scale, 0,
                  [&](void*, cudaStream_t stream) { run_scale_pack(problem, stream); });
  }
  static void run(const EpilogueBackwardProblem& problem, const Tensor& grad) {
    const int sm_count = gpu_of("_epilogue_backward", grad.get_device_index()).sm_count;
    run_on_device(
        "_epilogue_backward", problem, grad, epilogue_backward_workspace(problem, sm_count),
        [&](void* workspace, cudaStream_t stream) { run_epilogue_backward(problem, workspace, sm_count, stream); });
  }
};

}  // namespace

void CudaQuantize::run(const QuantizeProblem& given, const Tensor& x) {
  QuantizeProblem problem = given;
  problem.may_overlap = may_overlap(x);
  run_on_device(problem.numbers == nullptr ? "quantize" : "_round_to_format", problem, x, quantize_workspace(problem),
                [&](void* workspace, cudaStream_t stream) { run_quantize(problem, workspace, stream); });
}

void CudaQuantize::run(const Nvfp4RowsProblem& given, const Tensor& x) {
  Nvfp4RowsProblem problem = given;
  problem.quantize.may_overlap = may_overlap(x);
  run_on_device(problem.quantize.numbers == nullptr ? "_quantize_nvfp4_rows" : "_round_to_format", problem.quantize, x,
                0, [&](void*, cudaStream_t stream) { run_quantize_nvfp4_rows(problem, stream); });
}

}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  tileon::QuantizeEntry<tileon::Cuda>::add_to(m);
  m.impl("_round_to_format", TORCH_BOX(&tileon::QuantizeEntry<tileon::Cuda>::round_to_format));
  tileon::EpilogueBackwardEntry<tileon::Cuda>::add_to(m);
}
