// Block-scaled products through torch's own scaled_mm. Its SWIZZLE_32_4_4 layout of scales is our packed one.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <array>
#include <optional>

#include "checks/block_scaled.h"
#include "cuda/dispatch/scaled_mm_rules.h"

namespace tileon {

// The same memory under the dtype that scaled_mm knows: ours may be uint8.
inline Tensor as_e8m0(const Tensor& scale) {
  return torch::stable::from_blob(scale.data_ptr(), scale.sizes(), scale.strides(), scale.device(),
                                  ScalarType::Float8_e8m0fnu);
}

// `problem` is one that scaled_mm_takes.
inline void run_scaled_mm(const BlockScaledProblem& problem, const BlockScaledArguments& arguments, const Tensor& out) {
  Tensor b = arguments.b;
  using torch::stable::detail::from;
  std::array<StableIValue, 9> stack{from(arguments.a),
                                    from(torch::stable::transpose(b, 0, 1)),
                                    from(as_e8m0(arguments.scale_a)),
                                    from(as_e8m0(arguments.scale_b)),
                                    from(std::optional<Tensor>()),  // bias
                                    from(std::optional<Tensor>()),  // scale_result
                                    from(std::optional<ScalarType>(scalar_type(problem.out_dtype))),
                                    from(arguments.fast_accum),
                                    from(out)};
  if (torch_call_dispatcher("aten::_scaled_mm", "out", stack.data(), TORCH_ABI_VERSION) != 0)
    fail(block_scaled::kOp, ": torch's own scaled_mm failed");
  static_cast<void>(torch::stable::detail::to<Tensor>(stack[0]));  // takes the returned reference back
}

}  // namespace tileon
