// The entry point of _epilogue_backward, written once over a Device as those of quantize are (quantize.h).
#pragma once

#include <torch/csrc/stable/library.h>

#include <tuple>

#include "checks/epilogue_backward.h"
#include "entry/registration.h"

namespace tileon {

template <typename Device>
struct EpilogueBackwardEntry {
  static std::tuple<Tensor, Tensor> epilogue_backward(const Tensor& grad, const std::optional<Tensor>& saved,
                                                      const std::string& activation, double slope, ScalarType out_dtype,
                                                      std::optional<ScalarType> bias_dtype) {
    const EpilogueBackwardArguments arguments{grad, saved, activation, slope, out_dtype, bias_dtype};
    EpilogueBackwardProblem problem = check_epilogue_backward(arguments);
    Device::require("_epilogue_backward");
    const EpilogueGradients out = bind_outputs(problem, arguments);
    Device::run(problem, grad);
    return {out.grad_z, out.grad_bias};
  }

  static void add_to(RegisteredKernels::Library& m) {
    RegisteredKernels::add_with_compiled(m, "_epilogue_backward", TORCH_BOX(&EpilogueBackwardEntry::epilogue_backward));
  }
};

}  // namespace tileon
