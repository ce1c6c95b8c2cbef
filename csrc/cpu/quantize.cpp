// quantize, dequantize, pack_scales and unpack_scales on CPU tensors: one pass over the rows, by the formulas of
// block_quantize.h and small_floats.h.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>

#include "cpu/dequantize_row.h"
#include "cpu/device.h"
#include "entry/quantize.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

// `row_function` of each of the rows, in parallel.
template <typename Function>
void for_rows(int64_t rows, int64_t elements_per_row, const Function& row_function) {
  constexpr int64_t kElementsPerTask = 1 << 14;  // some 20 us of work: more than waking a thread costs
  torch::stable::parallel_for(0, rows, 1 + kElementsPerTask / elements_per_row, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) row_function(row);
  });
}

// ---- dtypes and formats as template parameters ----

template <typename Function>
void with_type(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kFloat16:
      return function(torch::headeronly::Half());
    case DType::kBFloat16:
      return function(torch::headeronly::BFloat16());
    default:
      return function(float());  // the checks have refused the others
  }
}

template <Format kFormat>
struct FormatConstant {
  static constexpr Format format = kFormat;
};

template <typename Function>
void with_format(Format format, const Function& function) {
  switch (format) {
    case Format::kMxfp8:
      return function(FormatConstant<Format::kMxfp8>());
    case Format::kMxfp4:
      return function(FormatConstant<Format::kMxfp4>());
    case Format::kNvfp4:
      return function(FormatConstant<Format::kNvfp4>());
  }
}

// ---- packed scales ----

// The rows of the last block that are no rows of the tensor come after those that are.
int64_t padded_rows(int64_t rows) { return scale_row_blocks(rows) * kScaleBlockRows; }

// What a row of packed scales has beyond its columns; everything, in a row of the padding.
void zero_padding(uint8_t* packed, int64_t row, int64_t rows, int64_t cols) {
  const ScaleStrides strides = packed_scales(cols);
  const int64_t padded_cols = scale_col_blocks(cols) * kScaleBlockCols;
  for (int64_t col = row < rows ? cols : 0; col < padded_cols; ++col) packed[strides.offset(row, col)] = 0;
}

// ---- quantize ----

template <Format kFormat>
BlockScale block_scale(float amax, ScaleRounding rounding, float global, float inverse) {
  if constexpr (kFormat == Format::kNvfp4)
    return nvfp4_scale(amax, global, inverse);
  else
    return e8m0_scale<info(kFormat).dtype>(amax, rounding);
}

template <DType kElement, int kCount>
void encode(const float* values, float factor, uint8_t* codes) {
  if constexpr (kElement == DType::kFloat8E4M3) {
    for (int i = 0; i < kCount; ++i) codes[i] = static_cast<uint8_t>(e4m3_code(values[i] * factor));
  } else {
    uint32_t single[kCount];  // a loop of its own, of which the compiler makes vectors
    for (int i = 0; i < kCount; ++i) single[i] = e2m1_code(values[i] * factor);
    for (int i = 0; i < kCount / 2; ++i) codes[i] = static_cast<uint8_t>(single[2 * i] | single[2 * i + 1] << 4);
  }
}

template <Format kFormat, typename In>
void quantize_row(const QuantizeProblem& problem, int64_t row, float global) {
  constexpr FormatInfo kInfo = info(kFormat);
  constexpr uint8_t kNaNScale = kInfo.scale == ScaleType::kE4M3 ? kE4M3NaN : kE8M0NaN;
  constexpr int kBytes = kInfo.vec / elements_per_byte(kInfo.dtype);
  const float inverse = 1.0f / global;
  const ScaleStrides strides = packed_scales(problem.cols());
  const In* x = static_cast<const In*>(problem.x) + row * problem.stride_row;
  uint8_t* codes = problem.data + row * problem.cols() * kBytes;
  uint8_t* scales = problem.scale + strides.of_row(row);
  for (int64_t col = 0; col < problem.cols(); ++col, x += kInfo.vec * problem.stride_k, codes += kBytes) {
    float values[kInfo.vec];
    uint32_t amax_bits = 0;
    for (int i = 0; i < kInfo.vec; ++i) {
      values[i] = static_cast<float>(x[i * problem.stride_k]);
      amax_bits = std::max(amax_bits, bits_of(values[i]) & 0x7fffffffu);
    }
    if (is_finite_amax(amax_bits)) {
      const BlockScale scale = block_scale<kFormat>(float_of(amax_bits), problem.rounding, global, inverse);
      scales[strides.of_col(col)] = scale.byte;
      encode<kInfo.dtype, kInfo.vec>(values, scale.factor, codes);
    } else {
      scales[strides.of_col(col)] = kNaNScale;
      std::fill_n(codes, kBytes, uint8_t{0});
    }
  }
}

void run(const QuantizeProblem& problem) {
  if (problem.rows == 0 || problem.k == 0) return;
  const float global = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;
  with_format(problem.format, [&](auto format) {
    with_type(problem.dtype, [&](auto zero) {
      for_rows(padded_rows(problem.rows), problem.k, [&](int64_t row) {
        if (row < problem.rows) quantize_row<decltype(format)::format, decltype(zero)>(problem, row, global);
        zero_padding(problem.scale, row, problem.rows, problem.cols());
      });
    });
  });
  record_kernel("cpu_quantize");
  log_call(problem);
}

// ---- dequantize ----

void run(const DequantizeProblem& problem) {
  if (problem.rows == 0 || problem.k == 0) return;
  const float global = problem.global_scale == nullptr ? 1.0f : *problem.global_scale;
  const FormatInfo& format = info(problem.format);
  const Operand operand{{problem.data, problem.stride_row, problem.stride_k, 0},
                        format.dtype,
                        {problem.scale, format.scale, format.vec, problem.scale_strides}};
  with_type(problem.out_dtype, [&](auto zero) {
    auto* const out = static_cast<decltype(zero)*>(problem.out);
    for_rows(problem.rows, problem.k,
             [&](int64_t row) { dequantize_row(operand, row, problem.k, global, out + row * problem.k); });
  });
  record_kernel("cpu_dequantize");
  log_call(problem);
}

// ---- pack_scales, unpack_scales ----

void run(const ScalePackProblem& problem) {
  if (problem.rows == 0 || problem.cols == 0) return;
  const ScaleStrides& from = problem.from_strides;
  const ScaleStrides to = problem.to_packed ? packed_scales(problem.cols) : flat_scales(problem.cols, 1);
  for_rows(problem.to_packed ? padded_rows(problem.rows) : problem.rows, problem.cols, [&](int64_t row) {
    for (int64_t col = 0; row < problem.rows && col < problem.cols; ++col)
      problem.to[to.offset(row, col)] = problem.from[from.offset(row, col)];
    if (problem.to_packed) zero_padding(problem.to, row, problem.rows, problem.cols);
  });
  record_kernel(problem.to_packed ? "cpu_pack_scales" : "cpu_unpack_scales");
  log_call(problem);
}

struct Cpu : CpuDevice {
  template <typename Problem>
  static void run(const Problem& problem, const Tensor&) {
    tileon::run(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CPU, m) { tileon::QuantizeEntry<tileon::Cpu>::add_to(m); }
