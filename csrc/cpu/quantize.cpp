// quantize, dequantize, pack_scales and unpack_scales on CPU tensors, by the formulas of block_quantize.h and
// small_floats.h: one pass over the rows, two where one scale is for all.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>

#include "cpu/dequantize_row.h"
#include "cpu/quantize.h"
#include "cpu/quantize_rows.h"
#include "entry/quantize.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

// `part_function(begin, end)` of parts of [0, count), in parallel. The parts are rows or blocks of so many elements.
template <typename Function>
void for_parts(int64_t count, int64_t elements, const Function& part_function) {
  constexpr int64_t kElementsPerTask = 1 << 14;  // some 10 us of work: more than waking a thread costs
  if (count > 0)
    torch::stable::parallel_for(0, count, 1 + kElementsPerTask / std::max<int64_t>(elements, 1), part_function);
}

// `row_function` of each of the rows, in parallel.
template <typename Function>
void for_rows(int64_t rows, int64_t elements_per_row, const Function& row_function) {
  for_parts(rows, elements_per_row, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) row_function(row);
  });
}

// ---- dtypes as template parameters ----

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

// ---- packed scales ----

// The rows of the last block that are no rows of the tensor come after those that are.
int64_t padded_rows(int64_t rows) { return scale_row_blocks(rows) * kScaleBlockRows; }

// What a row of packed scales has beyond its columns; everything, in a row of the padding.
void zero_padding(uint8_t* packed, int64_t row, int64_t rows, int64_t cols) {
  const ScaleStrides strides = packed_scales(cols);
  uint8_t* const scales = packed + strides.of_row(row);
  if (row < rows) {
    for (int64_t col = cols; col % kScaleBlockCols != 0; ++col) scales[strides.of_col(col)] = 0;
  } else {
    for (int64_t block = 0; block < scale_col_blocks(cols); ++block)
      memset(scales + block * kScaleBlockBytes, 0, kScaleBlockCols);
  }
}

// ---- quantize ----

// One scale for all.
void quantize_tensor(const QuantizeProblem& problem) {
  std::atomic<uint32_t> largest{0};
  for_parts(problem.rows, problem.k, [&](int64_t begin, int64_t end) {
    const uint32_t amax = amax_bits_of_rows(problem, begin, end);
    uint32_t seen = largest.load();
    while (seen < amax && !largest.compare_exchange_weak(seen, amax)) {
    }
  });
  const Float32Scale scale = info(problem.format).dtype == DType::kInt8 ? float32_scale<DType::kInt8>(largest)
                                                                        : float32_scale<DType::kFloat8E4M3>(largest);
  *static_cast<float*>(problem.scale) = scale.scale;
  for_parts(problem.rows, problem.k, [&](int64_t begin, int64_t end) { encode_rows(problem, scale, begin, end); });
}

// `quantize_part(begin, end)` writes rows and their scales.
template <typename Function>
void quantize_packed(const QuantizeProblem& problem, const Function& quantize_part) {
  for_parts(padded_rows(problem.rows), problem.k, [&](int64_t begin, int64_t end) {
    quantize_part(begin, std::min(end, problem.rows));
    for (int64_t row = begin; row < end; ++row)
      zero_padding(static_cast<uint8_t*>(problem.scale), row, problem.rows, problem.cols());
  });
}

void quantize(const QuantizeProblem& problem) {
  const FormatInfo& format = info(problem.format);
  if (problem.scale_rows() == 0 || problem.cols() == 0) return;
  if (has_packed_scales(problem.format)) {
    quantize_packed(problem, [&](int64_t begin, int64_t end) { quantize_rows(problem, begin, end); });
  } else if (format.rows == 0) {
    quantize_tensor(problem);
  } else {
    const int64_t block_k = format.vec == 0 ? problem.k : format.vec;
    for_parts(problem.scale_rows() * problem.cols(), format.rows * block_k,
              [&](int64_t begin, int64_t end) { quantize_blocks(problem, begin, end); });
  }
  record_kernel("cpu_quantize");
  log_call(problem);
}

void quantize(const Nvfp4RowsProblem& problem) {
  quantize_packed(problem.quantize, [&](int64_t begin, int64_t end) { quantize_nvfp4_rows(problem, begin, end); });
  record_kernel("cpu_quantize_nvfp4_rows");
  log_call(problem.quantize);
}

// ---- dequantize ----

template <typename Out>
void dequantize_packed_row(const DequantizeProblem& problem, int64_t row, Out* out) {
  const FormatInfo& format = info(problem.format);
  const Operand operand{{problem.data, problem.stride_row, problem.stride_k, 0},
                        format.dtype,
                        {problem.scale, format.scale, format.vec, problem.scale_strides}};
  const float* const global = problem.global_scale;
  dequantize_row(operand, row, 0, problem.k, global == nullptr ? 1.0f : global[row * problem.global_scale_stride], out);
}

// Code times scale in float32, rounded once. A row's block of scales is its own, or its 128 rows', or all rows'.
template <typename Out>
void dequantize_float32_row(const DequantizeProblem& problem, int64_t row, Out* out) {
  const FormatInfo& format = info(problem.format);
  const auto& values = format.dtype == DType::kInt8 ? int8_values() : e4m3_values();
  const auto* scales = static_cast<const float*>(problem.scale);
  const int64_t vec = format.vec == 0 ? problem.k : format.vec, row_block = format.rows == 0 ? 0 : row / format.rows;
  const uint8_t* codes = problem.data + row * problem.stride_row;
  for (int64_t begin = 0; begin < problem.k; begin += vec) {
    const float scale = scales[problem.scale_strides.offset(row_block, begin / vec)];
    for (int64_t k = begin; k < std::min(begin + vec, problem.k); ++k)
      out[k] = static_cast<Out>(values[codes[k * problem.stride_k]][0] * scale);
  }
}

void dequantize(const DequantizeProblem& problem) {
  if (problem.rows == 0 || problem.k == 0) return;
  with_type(problem.out_dtype, [&](auto zero) {
    using Out = decltype(zero);
    for_rows(problem.rows, problem.k, [&](int64_t row) {
      Out* const out = static_cast<Out*>(problem.out) + row * problem.k;
      if (has_packed_scales(problem.format))
        dequantize_packed_row(problem, row, out);
      else
        dequantize_float32_row(problem, row, out);
    });
  });
  record_kernel("cpu_dequantize");
  log_call(problem);
}

// ---- pack_scales, unpack_scales ----

void move_scales(const ScalePackProblem& problem) {
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

struct Cpu : CpuQuantize {
  using CpuQuantize::run;
  static void run(const DequantizeProblem& problem, const Tensor&) { dequantize(problem); }
  static void run(const ScalePackProblem& problem, const Tensor&) { move_scales(problem); }
};

}  // namespace

void CpuQuantize::run(const QuantizeProblem& problem, const Tensor&) { quantize(problem); }
void CpuQuantize::run(const Nvfp4RowsProblem& problem, const Tensor&) { quantize(problem); }

}  // namespace tileon

TILEON_KERNELS(CPU, m) { tileon::QuantizeEntry<tileon::Cpu>::add_to(m); }
