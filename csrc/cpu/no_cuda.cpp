// What a library built for the CPU alone says to CUDA tensors.
#ifndef TILEON_WITH_CUDA

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <string>

#include "../matmul_checks.h"

namespace tileon {
namespace {

[[noreturn]] void refuse_cuda() {
  fail("matmul: this library was built for the CPU alone, got CUDA tensors; build it where nvcc is found ",
       "(see python -m tileon_ops.info)");
}

Tensor matmul(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
              double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum) {
  check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum});
  refuse_cuda();
}

void matmul_out(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, const std::string& activation,
                double slope, std::optional<ScalarType> out_dtype, bool allow_tf32, bool fast_accum, Tensor out) {
  const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
  check_out(check_matmul(arguments), arguments, out);
  refuse_cuda();
}

Tensor matmul_with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, int64_t,
                          const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                          bool allow_tf32) {
  check_matmul({a, b, bias, activation, slope, out_dtype, allow_tf32, false});
  refuse_cuda();
}

}  // namespace
}  // namespace tileon

STABLE_TORCH_LIBRARY_IMPL(tileon, CUDA, m) {
  m.impl("matmul", TORCH_BOX(&tileon::matmul));
  m.impl("matmul.out", TORCH_BOX(&tileon::matmul_out));
  m.impl("_matmul_with_config", TORCH_BOX(&tileon::matmul_with_config));
}

#endif  // TILEON_WITH_CUDA
