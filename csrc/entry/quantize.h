// The entry points of quantize, its companion for rows of nvfp4, dequantize, pack_scales and unpack_scales, written
// once over a Device, which has
//
//   Device::require(op)         as in products.h
//   Device::run(problem, like)  of each of the problems, whose outputs are allocated; `like` is on the device
#pragma once

#include <torch/csrc/stable/library.h>

#include <tuple>

#include "checks/quantize.h"
#include "entry/registration.h"

namespace tileon {

template <typename Device>
struct QuantizeEntry {
  static std::tuple<Tensor, Tensor> quantize(const Tensor& x, const std::string& format,
                                             const std::optional<Tensor>& global_scale,
                                             const std::string& scale_rounding) {
    QuantizeProblem problem = check_quantize({x, format, global_scale, scale_rounding});
    Device::require("quantize");
    const Quantized out = bind_outputs(problem, x);
    Device::run(problem, x);
    return {out.data, out.scale};
  }

  static std::tuple<Tensor, Tensor, Tensor> quantize_nvfp4_rows(const Tensor& x,
                                                                const std::optional<Tensor>& global_scale) {
    Nvfp4RowsProblem problem = check_quantize_nvfp4_rows(x, global_scale);
    Device::require("quantize");
    const QuantizedRows out = bind_outputs(problem, x);
    Device::run(problem, x);
    return {out.data, out.scale, out.row_scales};
  }

  // What the codes of quantize stand for, of nvfp4 those of quantize_nvfp4_rows.
  static std::tuple<Tensor, Tensor> round_to_format(const Tensor& x, const std::string& format,
                                                    const std::optional<Tensor>& global_scale,
                                                    const std::string& scale_rounding) {
    const bool is_nvfp4 = format == info(Format::kNvfp4).name;
    if (is_nvfp4) check_quantize_nvfp4_rows(x, global_scale);
    const QuantizeProblem problem =
        check_quantize({x, format, is_nvfp4 ? std::optional<Tensor>() : global_scale, scale_rounding});
    if (!has_numbers(problem.format, problem.dtype))
      fail("_round_to_format: no numbers of ", dtype_name(scalar_type(problem.dtype)), " hold ",
           info(problem.format).name);
    Device::require("_round_to_format");
    const RoundedRows out = rounded(problem, x, global_scale);
    return {out.numbers, out.row_scales};
  }

  // Of a problem whose rules hold, as has_numbers does; `global_scale` is that of rows of nvfp4.
  static RoundedRows rounded(QuantizeProblem problem, const Tensor& x, const std::optional<Tensor>& global_scale) {
    const RoundedRows out = bind_numbers(problem, x);
    if (problem.format == Format::kNvfp4) {
      Nvfp4RowsProblem rows = check_quantize_nvfp4_rows(x, global_scale);
      rows.quantize.numbers = problem.numbers;
      rows.row_scales = static_cast<float*>(out.row_scales.mutable_data_ptr());
      Device::run(rows, x);
    } else {
      Device::run(problem, x);
    }
    return out;
  }

  static Tensor dequantize(const Tensor& data, const Tensor& scale, const std::string& format,
                           const std::optional<Tensor>& global_scale, std::optional<ScalarType> out_dtype) {
    return run("dequantize", check_dequantize({data, scale, format, global_scale, out_dtype}), data);
  }

  static Tensor pack_scales(const Tensor& scale) { return run("pack_scales", check_pack_scales(scale), scale); }

  static Tensor unpack_scales(const Tensor& packed, int64_t rows, int64_t cols) {
    return run("unpack_scales", check_unpack_scales(packed, rows, cols), packed);
  }

  static void add_to(RegisteredKernels::Library& m) {
    RegisteredKernels::add_with_compiled(m, "quantize", TORCH_BOX(&QuantizeEntry::quantize));
    RegisteredKernels::add_with_compiled(m, "_quantize_nvfp4_rows", TORCH_BOX(&QuantizeEntry::quantize_nvfp4_rows));
    m.impl("dequantize", TORCH_BOX(&QuantizeEntry::dequantize));
    m.impl("pack_scales", TORCH_BOX(&QuantizeEntry::pack_scales));
    m.impl("unpack_scales", TORCH_BOX(&QuantizeEntry::unpack_scales));
  }

 private:
  template <typename Problem>
  static Tensor run(const char* op, Problem problem, const Tensor& like) {
    Device::require(op);
    const Tensor out = bind_output(problem, like);
    Device::run(problem, like);
    return out;
  }
};

}  // namespace tileon
