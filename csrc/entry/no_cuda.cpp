// What a library built for the CPU alone says to CUDA tensors.
#ifndef TILEON_WITH_CUDA

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>
#include <tuple>

#include "checks/block_scaled.h"
#include "checks/epilogue_backward.h"
#include "checks/matmul.h"
#include "checks/prepared.h"
#include "checks/quantize.h"
#include "entry/registration.h"

namespace tileon {
namespace {

[[noreturn]] void refuse_cuda(const char* op) {
  fail(op, ": this library was built for the CPU alone, got CUDA tensors; build it where nvcc is found ",
       "(see python -m tileon_ops.info)");
}

Tensor matmul(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
              double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum) {
  check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum});
  refuse_cuda("matmul");
}

void matmul_out(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
                double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum, Tensor out) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
  check_out(check_matmul(arguments), arguments, out);
  refuse_cuda("matmul");
}

std::tuple<Tensor, Tensor> matmul_with_preactivation(const Tensor& a, const Tensor& b,
                                                     const std::optional<Tensor>& bias, const std::string& activation,
                                                     double slope, std::optional<ScalarType> out_dtype,
                                                     bool allow_tf32) {
  check_matmul_with_preactivation({a, b, bias, activation, slope, out_dtype, allow_tf32, false});
  refuse_cuda("matmul");
}

std::tuple<Tensor, Tensor> epilogue_backward(const Tensor& grad, const std::optional<Tensor>& saved,
                                             const std::string& activation, double slope, ScalarType out_dtype,
                                             std::optional<ScalarType> bias_dtype) {
  check_epilogue_backward({grad, saved, activation, slope, out_dtype, bias_dtype});
  refuse_cuda("_epilogue_backward");
}

Tensor matmul_with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, int64_t,
                          const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                          bool allow_tf32) {
  check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, false});
  refuse_cuda("matmul");
}

std::tuple<Tensor, Tensor> quantize(const Tensor& x, const std::string& format,
                                    const std::optional<Tensor>& global_scale, const std::string& scale_rounding) {
  check_quantize({x, format, global_scale, scale_rounding});
  refuse_cuda("quantize");
}

Tensor dequantize(const Tensor& data, const Tensor& scale, const std::string& format,
                  const std::optional<Tensor>& global_scale, std::optional<ScalarType> out_dtype) {
  check_dequantize({data, scale, format, global_scale, out_dtype});
  refuse_cuda("dequantize");
}

Tensor pack_scales(const Tensor& scale) {
  check_pack_scales(scale);
  refuse_cuda("pack_scales");
}

Tensor unpack_scales(const Tensor& packed, int64_t rows, int64_t cols) {
  check_unpack_scales(packed, rows, cols);
  refuse_cuda("unpack_scales");
}

Tensor block_scaled_matmul(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                           const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                           const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                           bool fast_accum) {
  check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum});
  refuse_cuda("block_scaled_matmul");
}

void block_scaled_matmul_out(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                             const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                             const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                             bool fast_accum, Tensor out) {
  const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                       activation, slope, out_dtype, fast_accum};
  check_out(check_block_scaled(arguments), arguments, out);
  refuse_cuda("block_scaled_matmul");
}

Tensor block_scaled_matmul_with_config(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                       const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                       int64_t, const std::string& activation, double slope,
                                       std::optional<ScalarType> out_dtype) {
  check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, false});
  refuse_cuda("block_scaled_matmul");
}

Tensor prepare_block_scaled(const Tensor& b, const Tensor& scale_b, const std::string& form) {
  check_prepare(b, scale_b, form);
  refuse_cuda("_prepare_block_scaled");
}

Tensor block_scaled_matmul_prepared(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                    const Tensor& prepared_b, const std::optional<Tensor>& bias,
                                    const std::optional<Tensor>& global_scale, const std::string& activation,
                                    double slope, std::optional<ScalarType> out_dtype, bool fast_accum) {
  const BlockScaledProblem problem =
      check_block_scaled({a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum});
  check_prepared(problem, a, prepared_b);
  refuse_cuda("_block_scaled_matmul_prepared");
}

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CUDA, m) {
  m.impl("matmul", TORCH_BOX(&tileon::matmul));
  m.impl("matmul.out", TORCH_BOX(&tileon::matmul_out));
  m.impl("_matmul_with_preactivation", TORCH_BOX(&tileon::matmul_with_preactivation));
  m.impl("_epilogue_backward", TORCH_BOX(&tileon::epilogue_backward));
  m.impl("_matmul_with_config", TORCH_BOX(&tileon::matmul_with_config));
  m.impl("quantize", TORCH_BOX(&tileon::quantize));
  m.impl("dequantize", TORCH_BOX(&tileon::dequantize));
  m.impl("pack_scales", TORCH_BOX(&tileon::pack_scales));
  m.impl("unpack_scales", TORCH_BOX(&tileon::unpack_scales));
  m.impl("block_scaled_matmul", TORCH_BOX(&tileon::block_scaled_matmul));
  m.impl("block_scaled_matmul.out", TORCH_BOX(&tileon::block_scaled_matmul_out));
  m.impl("_block_scaled_matmul_with_config", TORCH_BOX(&tileon::block_scaled_matmul_with_config));
  m.impl("_prepare_block_scaled", TORCH_BOX(&tileon::prepare_block_scaled));
  m.impl("_block_scaled_matmul_prepared", TORCH_BOX(&tileon::block_scaled_matmul_prepared));
}

#endif  // TILEON_WITH_CUDA
