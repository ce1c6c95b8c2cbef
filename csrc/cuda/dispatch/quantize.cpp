// quantize, dequantize, pack_scales and unpack_scales on CUDA tensors.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <string>
#include <tuple>

#include "checks/quantize.h"
#include "cuda/dispatch/device.h"
#include "cuda/elementwise/quantize.h"
#include "entry/registration.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

// Launches on the device and the current stream of `like`. `kernel` is its name in the log.
template <typename Problem>
void run(const char* kernel, void (*launch)(const Problem&, cudaStream_t), const Problem& problem, const Tensor& like) {
  const int device = like.get_device_index();
  const CurrentDevice current_device(device);
  launch(problem, current_stream(kernel, device));
  record_kernel(kernel);
  log_call(problem);
}

std::tuple<Tensor, Tensor> quantize(const Tensor& x, const std::string& format,
                                    const std::optional<Tensor>& global_scale, const std::string& scale_rounding) {
  QuantizeProblem problem = check_quantize({x, format, global_scale, scale_rounding});
  const Quantized out = bind_outputs(problem, x);
  run("quantize", run_quantize, problem, x);
  return {out.data, out.scale};
}

Tensor dequantize(const Tensor& data, const Tensor& scale, const std::string& format,
                  const std::optional<Tensor>& global_scale, std::optional<ScalarType> out_dtype) {
  DequantizeProblem problem = check_dequantize({data, scale, format, global_scale, out_dtype});
  const Tensor out = bind_output(problem, data);
  run("dequantize", run_dequantize, problem, data);
  return out;
}

Tensor pack_scales(const Tensor& scale) {
  ScalePackProblem problem = check_pack_scales(scale);
  const Tensor out = bind_output(problem, scale);
  run("pack_scales", run_scale_pack, problem, scale);
  return out;
}

Tensor unpack_scales(const Tensor& packed, int64_t rows, int64_t cols) {
  ScalePackProblem problem = check_unpack_scales(packed, rows, cols);
  const Tensor out = bind_output(problem, packed);
  run("unpack_scales", run_scale_pack, problem, packed);
  return out;
}

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  m.impl("quantize", TORCH_BOX(&tileon::quantize));
  m.impl("dequantize", TORCH_BOX(&tileon::dequantize));
  m.impl("pack_scales", TORCH_BOX(&tileon::pack_scales));
  m.impl("unpack_scales", TORCH_BOX(&tileon::unpack_scales));
}
