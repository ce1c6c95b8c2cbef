// quantize, dequantize, pack_scales and unpack_scales on CUDA tensors.
#include "entry/quantize.h"

#include <optional>

#include "cuda/dispatch/device.h"
#include "cuda/elementwise/elementwise.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

struct Cuda : CudaDevice {
  static void run(const QuantizeProblem& problem, const Tensor& x) {
    std::optional<Tensor> workspace;
    if (const int64_t bytes = quantize_workspace(problem); bytes > 0)
      workspace = allocate("quantize", x, {1, {bytes}}, ScalarType::Byte);
    void* const memory = workspace ? workspace->mutable_data_ptr() : nullptr;
    const auto launch = [memory](const QuantizeProblem& given, cudaStream_t stream) {
      run_quantize(given, memory, stream);
    };
    run("quantize", launch, problem, x);
  }
  static void run(const DequantizeProblem& problem, const Tensor& data) {
    run("dequantize", run_dequantize, problem, data);
  }
  static void run(const ScalePackProblem& problem, const Tensor& scale) {
    run(problem.to_packed ? "pack_scales" : "unpack_scales", run_scale_pack, problem, scale);
  }

 private:
  // On the device and the current stream of `like`. `kernel` is its name in the log.
  template <typename Problem, typename Launch>
  static void run(const char* kernel, const Launch& launch, const Problem& problem, const Tensor& like) {
    const int device = like.get_device_index();
    const CurrentDevice current_device(device);
    launch(problem, current_stream(kernel, device));
    record_kernel(kernel);
    log_call(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CUDA, m) { tileon::QuantizeEntry<tileon::Cuda>::add_to(m); }
