// What decides how fast a config computes a problem, as one line of text: the name under which measuring remembers the
// fastest config (tuned_configs.h). Two problems with the same text run alike on the same GPU, or nearly so: what the
// cheap formulas of an epilogue cost is left out.
#pragma once

#include <cstdint>
#include <string>

#include "core/problem.h"

namespace tileon {

constexpr int kTextAlignment = 16;  // what TMA and vector loads ask of the places where rows begin

// How a matrix lies, as far as loads and stores tell: along which dimension its elements are adjacent, whether its rows
// along that one begin at multiples of 16 bytes, and whether the whole batch shares it. A stride along which there is
// one element only is never used.
struct OperandLayout {
  const void* data;
  int64_t stride_mn, stride_k, stride_batch;
  int64_t mn, k, batch;
  int element_bytes;

  bool starts_aligned(int64_t size, int64_t stride) const {
    return size <= 1 || stride * element_bytes % kTextAlignment == 0;
  }

  std::string text() const {
    const bool is_along_k = stride_k == 1 || k <= 1;
    if (!is_along_k && stride_mn != 1 && mn > 1) return "gathered";
    const bool aligned = reinterpret_cast<uintptr_t>(data) % kTextAlignment == 0 &&
                         starts_aligned(batch, stride_batch) &&
                         (is_along_k ? starts_aligned(mn, stride_mn) : starts_aligned(k, stride_k));
    return std::string(is_along_k ? "k" : "mn") + (aligned ? "" : ",unaligned") +
           (batch > 1 && stride_batch == 0 ? ",shared" : "");
  }
};

// Of an output, whose k is n.
inline std::string layout_text(const Output& out, int64_t batch, int64_t m, int64_t n, DType dtype) {
  const std::string text =
      OperandLayout{out.data, out.stride_m, out.stride_n, out.stride_batch, m, n, batch, info(dtype).bytes}.text();
  if (text == "gathered") return "other";
  return text[0] == 'k' ? "rows" + text.substr(1) : "columns" + text.substr(2);
}

inline std::string layout_text(const Operand& operand, const Problem& problem, int64_t mn) {
  return OperandLayout{operand.data, operand.stride_mn, operand.stride_k, operand.stride_batch,
                       mn,           problem.k,         problem.batch,    info(operand.dtype).bytes}
      .text();
}

// "tensor", "row", "1x128", "128x128": what has a float32 scale of its own.
inline const char* granularity_name(const ScaleStrides& strides) {
  if (strides.col == 0) return strides.row_block == 0 ? "tensor" : "row";
  return strides.row == 0 && strides.row_block != 0 ? "128x128" : "1x128";
}

// "bfloat16", "mxfp8", "int8_row".
inline std::string operand_name(const Operand& operand) {
  if (operand.scale.vec == 0) return info(operand.dtype).name;
  if (operand.scale.type == ScaleType::kFloat32)
    return info(operand.dtype).name + std::string("_") + granularity_name(operand.scale.strides);
  if (operand.scale.type == ScaleType::kE4M3) return info(Format::kNvfp4).name;
  return info(operand.dtype == DType::kFloat8E4M3 ? Format::kMxfp8 : Format::kMxfp4).name;
}

// "bfloat16", "float8_e4m3fn*float8_e5m2", "mxfp4", "mixed", "bfloat16*mxfp4", "int8_row*int8_tensor".
inline std::string operands_name(const Problem& problem) {
  if (problem.is_block_scaled() && problem.a.dtype != problem.b.dtype) return "mixed";
  const std::string a = operand_name(problem.a), b = operand_name(problem.b);
  return a == b ? a : a + "*" + b;
}

inline bool is_tf32(const Problem& problem) { return problem.allow_tf32 && problem.a.dtype == DType::kFloat32; }

// How the operands lie, as far as it matters. How codes of scaled operands lie does not: they are copied where kernels
// cannot read them.
inline std::string operands_layout(const Problem& problem) {
  if (!problem.is_block_scaled())
    return " a=" + layout_text(problem.a, problem, problem.m) + " b=" + layout_text(problem.b, problem, problem.n);
  std::string text;
  if (problem.prepared_b.data != nullptr)
    text += problem.prepared_b.form == PreparedForm::kInt8 ? " prepared=int8" : " prepared=bfloat16";
  const bool packed = is_packed(problem.a.scale.strides) && is_packed(problem.b.scale.strides);
  return text + (packed ? " scales=packed" : " scales=other");
}

// "matmul bfloat16->bfloat16 1x4096x14336x4096 a=k b=mn out=rows plain": batch x m x n x k;
// "block_scaled_matmul mxfp4->float16 fast 4096x14336x4096 scales=packed out=rows plain": m x n x k.
inline std::string problem_text(const Problem& problem) {
  const bool scaled = problem.is_scaled();
  std::string text = scaled ? "block_scaled_matmul " : "matmul ";
  text += (is_tf32(problem) ? "tf32" : operands_name(problem)) + "->" + info(problem.out_dtype).name;
  if (problem.fast_accum && (scaled || is_float8(problem.a.dtype))) text += " fast";
  text += scaled ? " " : " " + std::to_string(problem.batch) + "x";
  text += std::to_string(problem.m) + "x" + std::to_string(problem.n) + "x" + std::to_string(problem.k);
  text += operands_layout(problem);
  text += " out=" + layout_text(problem.out, problem.batch, problem.m, problem.n, problem.out_dtype);
  text += is_cheap(problem.epilogue) ? " plain" : " costly";
  return problem.pre_activation == nullptr ? text : text + ",kept";
}

// The text of the problem with an output as the ops allocate it, contiguous and aligned, in the place of its own.
inline std::string fresh_problem_text(Problem problem) {
  problem.out = {nullptr, problem.n, 1, problem.m * problem.n};
  return problem_text(problem);
}

}  // namespace tileon
