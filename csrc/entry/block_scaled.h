// The entry points of block_scaled_matmul, written once over a Device, as those of matmul are (matmul.h). Besides:
//
//   Device::prepare(problem, form, b)  a buffer with the weight `b` as Hopper's kernels multiply it, or fails
//   Device::require_prepared(op)       fails where the device's kernels read no such buffer
#pragma once

#include <torch/csrc/stable/library.h>

#include "checks/block_scaled.h"
#include "checks/prepared.h"
#include "entry/registration.h"

namespace tileon {

template <typename Device>
struct BlockScaledEntry {
  static constexpr const char* kOp = block_scaled::kOp;

  static Tensor fresh(Problem problem, const BlockScaledArguments& arguments, int64_t config) {
    Device::require(kOp);
    Tensor out = new_output(problem, arguments);
    problem.out = output_of(out);
    Device::run(problem, arguments, out, config);
    return out;
  }

  static Tensor block_scaled_matmul(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                    const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                    const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                                    bool fast_accum) {
    const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                         activation, slope, out_dtype, fast_accum};
    return fresh(check_block_scaled(arguments), arguments, -1);
  }

  static void block_scaled_matmul_out(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                                      const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                                      const std::string& activation, double slope, std::optional<ScalarType> out_dtype,
                                      bool fast_accum, Tensor out) {
    const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                         activation, slope, out_dtype, fast_accum};
    Problem problem = check_block_scaled(arguments);
    check_out(problem, arguments, out);
    Device::require(kOp);
    problem.out = output_of(out);
    Device::run(problem, arguments, out, -1);
  }

  static Tensor with_config(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                            const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                            int64_t config, const std::string& activation, double slope,
                            std::optional<ScalarType> out_dtype) {
    const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b, bias, global_scale,
                                         activation, slope, out_dtype, false};
    const Problem problem = check_block_scaled(arguments);
    if (config < 0) fail(kOp, ": `config` must not be negative, got ", config);
    Device::require_config(kOp, config);
    return fresh(problem, arguments, config);
  }

  static Tensor prepare(const Tensor& b, const Tensor& scale_b, const std::string& form) {
    const auto [problem, prepared_form] = check_prepare(b, scale_b, form);
    return Device::prepare(problem, prepared_form, b);
  }

  static Tensor prepared(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                         const Tensor& prepared_b, const std::optional<Tensor>& bias,
                         const std::optional<Tensor>& global_scale, const std::string& activation, double slope,
                         std::optional<ScalarType> out_dtype, bool fast_accum) {
    const BlockScaledArguments arguments{a,          b,     scale_a,   scale_b,   bias, global_scale,
                                         activation, slope, out_dtype, fast_accum};
    Problem problem = check_block_scaled(arguments);
    problem.prepared_b = check_prepared(problem, a, prepared_b);
    Device::require_prepared("_block_scaled_matmul_prepared");
    return fresh(problem, arguments, -1);
  }

  static void add_to(RegisteredKernels::Library& m) {
    m.impl("block_scaled_matmul", TORCH_BOX(&BlockScaledEntry::block_scaled_matmul));
    m.impl("block_scaled_matmul.out", TORCH_BOX(&BlockScaledEntry::block_scaled_matmul_out));
    m.impl("_block_scaled_matmul_with_config", TORCH_BOX(&BlockScaledEntry::with_config));
    m.impl("_prepare_block_scaled", TORCH_BOX(&BlockScaledEntry::prepare));
    m.impl("_block_scaled_matmul_prepared", TORCH_BOX(&BlockScaledEntry::prepared));
  }
};

}  // namespace tileon
