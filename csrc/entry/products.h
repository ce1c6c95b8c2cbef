// The entry points of matmul and block_scaled_matmul, written once over a Device: the CPU, CUDA, or CUDA in a library
// that was built without.
//
//   Device::require(op)                 fails where the library has nothing for the device
//   Device::require_config(op, config)  fails where the device has no config of that number
//   Device::run(problem, arguments, out, pre_activation, config)
//   Device::require_prepared(op)        fails where the device's kernels read no prepared weights
//   Device::prepare(problem, form, b)   a buffer with the weight `b` as Hopper's kernels multiply it, or fails
//
// `run` fills `out`, and `pre_activation` where it is not null, by config `config`; of its own choice where that is
// negative.
#pragma once

#include <torch/csrc/stable/library.h>

#include <tuple>
#include <utility>

#include "checks/prepared.h"
#include "checks/scaled_products.h"
#include "entry/registration.h"

namespace tileon {

template <typename Device>
struct ProductEntries {
  static FreshResult fresh(Problem& problem, const ProductArguments& arguments, int64_t config) {
    Device::require(arguments.op);
    OwnedTensor out = new_output(problem, arguments);
    problem.out = output_of_new(out, problem);
    Device::run(problem, arguments, out.get(), nullptr, config);
    return FreshResult(std::move(out));
  }

  static void into(Problem&& problem, const ProductArguments& arguments, Tensor out) {
    check_out(problem, arguments, out);
    Device::require(arguments.op);
    problem.out = output_of(out);
    Device::run(problem, arguments, out.get(), nullptr, -1);
  }

  static FreshResult by_choice(Problem&& problem, const ProductArguments& arguments) {
    return fresh(problem, arguments, -1);
  }

  static FreshResult by_config(int64_t config, Problem&& problem, const ProductArguments& arguments) {
    if (config < 0) fail(arguments.op, ": `config` must not be negative, got ", config);
    Device::require_config(arguments.op, config);
    return fresh(problem, arguments, config);
  }

  // ---- matmul ----

  static std::tuple<FreshResult, FreshResult> matmul_with_preactivation(const Tensor& a, const Tensor& b,
                                                                        const std::optional<Tensor>& bias,
                                                                        const std::string& activation, double slope,
                                                                        std::optional<ScalarType> out_dtype,
                                                                        bool allow_tf32) {
    const auto call = matmul_arguments(a, b, bias, activation, slope, out_dtype, allow_tf32, false);
    Problem problem = check_matmul_with_preactivation(call);
    Device::require(call.op);
    OwnedTensor out = new_output(problem, call), pre_activation = new_output(problem, call);
    problem.out = output_of_new(out, problem);
    problem.pre_activation = writable_data(pre_activation.get());
    Device::run(problem, call, out.get(), pre_activation.get(), -1);
    return {FreshResult(std::move(out)), FreshResult(std::move(pre_activation))};
  }

  static FreshResult matmul_with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                                        int64_t config, const std::string& activation, double slope,
                                        std::optional<ScalarType> out_dtype, bool allow_tf32) {
    const auto call = matmul_arguments(a, b, bias, activation, slope, out_dtype, allow_tf32, false);
    return by_config(config, check_matmul(call), call);
  }

  // ---- block_scaled_matmul ----

  static FreshResult block_scaled_with_config(const Tensor& a, const Tensor& b, const std::optional<Tensor>& scale_a,
                                              const Tensor& scale_b, const std::optional<Tensor>& bias,
                                              const std::optional<Tensor>& global_scale, int64_t config,
                                              const std::string& activation, double slope,
                                              std::optional<ScalarType> out_dtype) {
    const auto call =
        block_scaled_arguments(a, b, scale_a, scale_b, bias, global_scale, activation, slope, out_dtype, false);
    return by_config(config, check_block_scaled(call), call);
  }

  static Tensor prepare(const Tensor& b, const Tensor& scale_b, const std::string& form) {
    const auto [problem, prepared_form] = check_prepare(b, scale_b, form);
    return Device::prepare(problem, prepared_form, b);
  }

  static FreshResult block_scaled_prepared(const Tensor& a, const Tensor& b, const Tensor& scale_a,
                                           const Tensor& scale_b, const Tensor& prepared_b,
                                           const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                           const std::string& activation, double slope,
                                           std::optional<ScalarType> out_dtype, bool fast_accum) {
    check_given("block_scaled_matmul", "scale_a", scale_a);
    const std::optional<Tensor> of_a = scale_a;
    const auto call =
        block_scaled_arguments(a, b, of_a, scale_b, bias, global_scale, activation, slope, out_dtype, fast_accum);
    Problem problem = check_block_scaled(call);
    problem.prepared_b = check_prepared(problem, a, prepared_b);
    Device::require_prepared("_block_scaled_matmul_prepared");
    return fresh(problem, call, -1);
  }

  static void add_to(RegisteredKernels::Library& m) {
    RegisteredKernels::add_with_compiled(m, "matmul", TORCH_BOX(&of_matmul<&ProductEntries::by_choice>));
    m.impl("matmul.out", TORCH_BOX((&of_matmul<&ProductEntries::into, Tensor>)));
    RegisteredKernels::add_with_compiled(m, "_matmul_with_preactivation",
                                         TORCH_BOX(&ProductEntries::matmul_with_preactivation));
    m.impl("_matmul_with_config", TORCH_BOX(&ProductEntries::matmul_with_config));
    RegisteredKernels::add_with_compiled(m, "block_scaled_matmul",
                                         TORCH_BOX(&of_block_scaled<&ProductEntries::by_choice>));
    m.impl("block_scaled_matmul.out", TORCH_BOX((&of_block_scaled<&ProductEntries::into, Tensor>)));
    m.impl("_block_scaled_matmul_with_config", TORCH_BOX(&ProductEntries::block_scaled_with_config));
    m.impl("_prepare_block_scaled", TORCH_BOX(&ProductEntries::prepare));
    m.impl("_block_scaled_matmul_prepared", TORCH_BOX(&ProductEntries::block_scaled_prepared));
  }
};

}  // namespace tileon
