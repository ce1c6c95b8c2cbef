// The entry point of a layer whose activations are quantized at each call: _quantized_linear, written once over the
// Devices of products.h and of quantize.h. Of the first it asks besides
//
//   Device::index_of(tensor)                        the number of its device
//   Device::takes_numbers(problem, format, device)  whether the numbers that the codes of `format` stand for are
//                                                   expected to be multiplied sooner; `problem` has them as its a
//
// Both products have the same terms.
#pragma once

#include <torch/csrc/stable/library.h>

#include <optional>
#include <string>

#include "entry/products.h"
#include "entry/quantize.h"

namespace tileon {

template <typename ProductDevice, typename QuantizeDevice>
struct QuantizedLinearEntry {
  using Products = ProductEntries<ProductDevice>;
  using Quantize = QuantizeEntry<QuantizeDevice>;

  // The arguments of a call but for how the rows are quantized.
  struct Layer {
    const Tensor& x;
    const Tensor& b;
    const Tensor& scale_b;
    const std::optional<Tensor>& bias;
    const std::string& activation;
    double slope;
    bool fast_accum;

    ProductArguments product(const Tensor& a, const std::optional<Tensor>& scale_a,
                             const std::optional<Tensor>& factor) const {
      return block_scaled_arguments(a, b, scale_a, scale_b, bias, factor, activation, slope, x.scalar_type(),
                                    fast_accum);
    }
  };

  // Of rows of nvfp4 each has a global scale of its own.
  static FreshResult linear(const Tensor& x, const Tensor& b, const Tensor& scale_b, const std::string& format,
                            const std::optional<Tensor>& bias, const std::optional<Tensor>& global_scale,
                            const std::string& scale_rounding, const std::string& activation, double slope,
                            bool fast_accum) {
    const QuantizeProblem rows = check_quantize({x, format, std::nullopt, scale_rounding});
    const Layer layer{x, b, scale_b, bias, activation, slope, fast_accum};
    if (has_numbers(rows.format, rows.dtype)) {
      Problem problem = check_block_scaled(layer.product(x, std::nullopt, global_scale));
      problem.a = {{nullptr, problem.k, 1, 0}, problem.a.dtype, {}};  // as the numbers will lie
      problem.out = packed_output(nullptr, problem);
      if (problem.b.scale.type == info(rows.format).scale &&
          ProductDevice::takes_numbers(problem, rows.format, ProductDevice::index_of(x)))
        return by_numbers(layer, rows, global_scale);
    }
    return rows.format == Format::kNvfp4 ? by_rows_of_nvfp4(layer, global_scale) : by_codes(layer, rows, global_scale);
  }

  static void add_to(RegisteredKernels::Library& m) {
    RegisteredKernels::add_with_compiled(m, "_quantized_linear", TORCH_BOX(&QuantizedLinearEntry::linear));
  }

 private:
  static FreshResult by_numbers(const Layer& layer, const QuantizeProblem& problem,
                                const std::optional<Tensor>& global_scale) {
    const auto [numbers, row_scales] = Quantize::rounded(problem, layer.x, global_scale);
    const std::optional<Tensor> factor = problem.format == Format::kNvfp4 ? std::optional(row_scales) : global_scale;
    const ProductArguments arguments = layer.product(numbers, std::nullopt, factor);
    Problem product = check_block_scaled(arguments);
    return Products::fresh(product, arguments, -1);
  }

  static FreshResult by_rows_of_nvfp4(const Layer& layer, const std::optional<Tensor>& global_scale) {
    Nvfp4RowsProblem problem = check_quantize_nvfp4_rows(layer.x, global_scale);
    const QuantizedRows rows = bind_outputs(problem, layer.x);
    return quantize_and_multiply(problem, layer, rows.data, rows.scale, rows.row_scales);
  }

  static FreshResult by_codes(const Layer& layer, QuantizeProblem problem, const std::optional<Tensor>& global_scale) {
    const Quantized rows = bind_outputs(problem, layer.x);
    return quantize_and_multiply(problem, layer, rows.data, rows.scale, global_scale);
  }

  // After the rules of the product.
  template <typename QuantizeProblemOfRows>
  static FreshResult quantize_and_multiply(const QuantizeProblemOfRows& problem, const Layer& layer, const Tensor& data,
                                           const Tensor& scale, const std::optional<Tensor>& factor) {
    const std::optional<Tensor> scale_a = scale;
    const ProductArguments arguments = layer.product(data, scale_a, factor);
    Problem product = check_block_scaled(arguments);
    QuantizeDevice::require("_quantized_linear");
    QuantizeDevice::run(problem, layer.x);
    return Products::fresh(product, arguments, -1);
  }
};

// ---- for torch's compiler: whether a graph's quantize and block_scaled_matmul become a _quantized_linear ----

// Of (m, k) of `dtype`, which `format` quantizes, by (n, k) of `format_of_b`, both with packed scales.
template <typename ProductDevice>
bool multiplies_numbers(int64_t device, int64_t m, int64_t n, int64_t k, const std::string& format,
                        const std::string& format_of_b, ScalarType dtype, bool fast_accum) {
  constexpr const char* kOp = "_multiplies_numbers";
  const Format of_a = check_name(kOp, "format", kFormats, format).format;
  const FormatInfo& of_b = check_name(kOp, "format_of_b", kFormats, format_of_b);
  const auto number = dtype_of(dtype);
  if (!number || !is_number_dtype(dtype) || !has_numbers(of_a, *number) || of_b.scale != info(of_a).scale) return false;
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a = {{nullptr, k, 1, 0}, *number, {}};
  problem.b = {{nullptr, k / elements_per_byte(of_b.dtype), 1, 0},
               of_b.dtype,
               {nullptr, of_b.scale, of_b.vec, packed_scales(k / of_b.vec)}};
  problem.out_dtype = *number;
  problem.out = packed_output(nullptr, problem);
  problem.fast_accum = fast_accum;
  return ProductDevice::takes_numbers(problem, of_a, static_cast<int>(device));
}

}  // namespace tileon
