// quantize, _quantize_nvfp4_rows, dequantize, pack_scales, unpack_scales and _epilogue_backward on CUDA tensors.
#include "cuda/elementwise/elementwise.h"

#include <optional>

#include "cuda/dispatch/device.h"
#include "entry/epilogue_backward.h"
#include "entry/quantize.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

struct Cuda : CudaDevice {
  static void run(const QuantizeProblem& problem, const Tensor& x) {
    run("quantize", problem, x, quantize_workspace(problem),
        [&](void* workspace, cudaStream_t stream) { run_quantize(problem, workspace, stream); });
  }
  static void run(const Nvfp4RowsProblem& problem, const Tensor& x) {
    run("_quantize_nvfp4_rows", problem.quantize, x, 0,
        [&](void*, cudaStream_t stream) { run_quantize_nvfp4_rows(problem, stream); });
  }
  static void run(const DequantizeProblem& problem, const Tensor& data) {
    run("dequantize", problem, data, 0, [&](void*, cudaStream_t stream) { run_dequantize(problem, stream); });
  }
  static void run(const ScalePackProblem& problem, const Tensor& scale) {
    run(problem.to_packed ? "pack_scales" : "unpack_scales", problem, scale, 0,
        [&](void*, cudaStream_t stream) { run_scale_pack(problem, stream); });
  }
  static void run(const EpilogueBackwardProblem& problem, const Tensor& grad) {
    const int sm_count = gpu_of("_epilogue_backward", grad.get_device_index()).sm_count;
    run("_epilogue_backward", problem, grad, epilogue_backward_workspace(problem, sm_count),
        [&](void* workspace, cudaStream_t stream) { run_epilogue_backward(problem, workspace, sm_count, stream); });
  }

 private:
  // On the device and the current stream of `like`, with a workspace of so many bytes. The log has the op's name, of a
  // private one without the underscore.
  template <typename Problem, typename Launch>
  static void run(const char* op, const Problem& problem, const Tensor& like, int64_t workspace_bytes,
                  const Launch& launch) {
    const int device = like.get_device_index();
    const CurrentDevice current_device(device);
    std::optional<Tensor> workspace;
    if (workspace_bytes > 0) workspace = allocate(op, like, {1, {workspace_bytes}}, ScalarType::Byte);
    launch(workspace ? workspace->mutable_data_ptr() : nullptr, current_stream(op, device));
    record_kernel(*op == '_' ? op + 1 : op);
    log_call(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  tileon::QuantizeEntry<tileon::Cuda>::add_to(m);
  tileon::EpilogueBackwardEntry<tileon::Cuda>::add_to(m);
}
