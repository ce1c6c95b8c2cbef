// The entry points of matmul, written once over a Device: the CPU, CUDA, or CUDA in a library that was built without.
//
//   Device::require(op)                 fails where the library has nothing for the device
//   Device::require_config(op, config)  fails where the device has no config of that number
//   Device::run(problem, arguments, out, pre_activation, config)
//
// `run` fills `out`, and `pre_activation` where it is not null, by config `config`; of its own choice where that is
// negative.
#pragma once

#include <torch/csrc/stable/library.h>

#include <tuple>

#include "checks/matmul.h"
#include "entry/registration.h"

namespace tileon {

template <typename Device>
struct MatmulEntry {
  static constexpr const char* kOp = "matmul";

  static Tensor fresh(Problem problem, const MatmulArguments& arguments, int64_t config) {
    Device::require(kOp);
    Tensor out = new_output(problem, arguments);
    problem.out = output_of(out);
    Device::run(problem, arguments, out, nullptr, config);
    return out;
  }

  static Tensor matmul(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                       const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                       bool allow_tf32, bool fast_accum) {
    const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
    return fresh(check_matmul(arguments), arguments, -1);
  }

  static void matmul_out(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                         const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                         bool allow_tf32, bool fast_accum, Tensor out) {
    const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, fast_accum};
    Problem problem = check_matmul(arguments);
    check_out(problem, arguments, out);
    Device::require(kOp);
    problem.out = output_of(out);
    Device::run(problem, arguments, out, nullptr, -1);
  }

  static std::tuple<Tensor, Tensor> with_preactivation(const Tensor& a, const Tensor& b,
                                                       const std::optional<Tensor>& bias, const std::string& activation,
                                                       double slope, std::optional<ScalarType> out_dtype,
                                                       bool allow_tf32) {
    const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, false};
    Problem problem = check_matmul_with_preactivation(arguments);
    Device::require(kOp);
    Tensor out = new_output(problem, arguments);
    Tensor pre_activation = new_output(problem, arguments);
    problem.out = output_of(out);
    problem.pre_activation = pre_activation.mutable_data_ptr();
    Device::run(problem, arguments, out, &pre_activation, -1);
    return {out, pre_activation};
  }

  static Tensor with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias, int64_t config,
                            const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                            bool allow_tf32) {
    const MatmulArguments arguments{a, b, bias, activation, slope, out_dtype, allow_tf32, false};
    const Problem problem = check_matmul(arguments);
    if (config < 0) fail(kOp, ": `config` must not be negative, got ", config);
    Device::require_config(kOp, config);
    return fresh(problem, arguments, config);
  }

  static void add_to(RegisteredKernels::Library& m) {
    m.impl("matmul", TORCH_BOX(&MatmulEntry::matmul));
    m.impl("matmul.out", TORCH_BOX(&MatmulEntry::matmul_out));
    m.impl("_matmul_with_preactivation", TORCH_BOX(&MatmulEntry::with_preactivation));
    m.impl("_matmul_with_config", TORCH_BOX(&MatmulEntry::with_config));
  }
};

}  // namespace tileon
