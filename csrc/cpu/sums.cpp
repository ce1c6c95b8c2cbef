#include "cpu/sums.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <array>

#include "checks/operands.h"
#include "core/small_floats.h"
#include "cpu/multiversion.h"

namespace tileon {
namespace {

// ---- from sums to the output ----

struct Float8E4M3 {
  uint8_t code;
  explicit Float8E4M3(float value) : code(static_cast<uint8_t>(e4m3_code(value))) {}  // saturates
};

// Sums of columns [col, col + cols) of rows [row, row + rows) of all batches.
template <typename Accumulator>
struct SumsBlock {
  const Accumulator* data;  // [rows][stride]
  int64_t stride, row, rows, col, cols;
};

// One row: `function` of every sum times `factor` plus its bias, rounded. The compiler makes vectors of it, wide ones
// since a loop has one width of numbers: some are finished at a time, then rounded.
template <typename Accumulator, typename Out, typename Function>
void write_row(const Accumulator* sums, int64_t columns, Accumulator factor, const Accumulator* bias, Out* out,
               int64_t stride, const Function& function) {
  constexpr int64_t kAtATime = 256;
  Accumulator finished[kAtATime];
  for (int64_t begin = 0; begin < columns; begin += kAtATime) {
    const int64_t count = std::min(columns - begin, kAtATime);
    const Accumulator* from = sums + begin;
    if (bias == nullptr) {
      for (int64_t i = 0; i < count; ++i) finished[i] = function(from[i] * factor);
    } else {
      for (int64_t i = 0; i < count; ++i) finished[i] = function(from[i] * factor + bias[begin + i]);
    }
    Out* to = out + begin * stride;
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Out>(finished[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<Out>(finished[i]);
    }
  }
}

template <typename Out, typename Accumulator, typename Function>
void write_rows(const FinishedSums& finished, const SumsBlock<Accumulator>& block, const Function& function) {
  const Output& out = finished.out;
  const auto* bias = static_cast<const Accumulator*>(finished.bias);
  for (int64_t i = 0; i < block.rows; ++i) {
    const int64_t row = block.row + i, batch = row / finished.m, m = row % finished.m;
    Out* to = static_cast<Out*>(out.data) + batch * out.stride_batch + m * out.stride_m + block.col * out.stride_n;
    write_row(block.data + i * block.stride, block.cols, static_cast<Accumulator>(finished.global_scale.of_row(row)),
              bias == nullptr ? nullptr : bias + block.col, to, out.stride_n, function);
  }
}

// Every sum; the output may be the sums' own memory.
template <typename Out, typename Accumulator>
void write_all(const FinishedSums& finished, const SumsBlock<Accumulator>& block) {
  const auto slope = static_cast<Accumulator>(finished.slope);
  visit_activation(finished.activation, [&](auto activation) {
    write_rows<Out>(finished, block, [=](Accumulator x) { return activate(x, activation(), slope); });
  });
}

// By the widest vectors of this processor, for the outputs that most products have.
TILEON_MULTIVERSION void write_bfloat16(const FinishedSums& finished, const SumsBlock<float>& block) {
  write_all<torch::headeronly::BFloat16>(finished, block);
}

TILEON_MULTIVERSION void write_float16(const FinishedSums& finished, const SumsBlock<float>& block) {
  write_all<torch::headeronly::Half>(finished, block);
}

TILEON_MULTIVERSION void write_float32(const FinishedSums& finished, const SumsBlock<float>& block) {
  write_all<float>(finished, block);
}

void write_block(const FinishedSums& finished, const SumsBlock<double>& block) { write_all<double>(finished, block); }

void write_block(const FinishedSums& finished, const SumsBlock<float>& block) {
  switch (finished.out_dtype) {
    case DType::kFloat16:
      return write_float16(finished, block);
    case DType::kBFloat16:
      return write_bfloat16(finished, block);
    case DType::kFloat8E4M3:
      return write_all<Float8E4M3>(finished, block);
    default:  // the ops' checks have refused the others
      return write_float32(finished, block);
  }
}

template <typename Accumulator>
void write_output_of(const Tensor& sums, const FinishedSums& finished, int64_t batch, int64_t n) {
  constexpr int64_t kElementsPerTask = 1 << 15;  // some 10 us of work: far more than waking a thread costs
  const auto* data = static_cast<const Accumulator*>(sums.const_data_ptr());
  torch::stable::parallel_for(0, batch * finished.m, 1 + kElementsPerTask / n, [&](int64_t begin, int64_t end) {
    write_block(finished, {data + begin * n, n, begin, end - begin, 0, n});
  });
}

}  // namespace

Tensor sums_for(const Tensor& out, DType accumulator) {
  if (out.scalar_type() == scalar_type(accumulator) && out.is_contiguous()) return out;
  return allocate("the sums of a product", out, shape_of(out), scalar_type(accumulator));
}

// By the `out` overloads of aten::mm and aten::bmm, which autocast leaves alone: it would turn the other overloads to
// 16 bits.
void multiply_into(const Tensor& sums, const Tensor& a, const Tensor& b) {
  const char* op = sums.dim() == 2 ? "aten::mm" : "aten::bmm";
  std::array<StableIValue, 3> stack{from(a), from(b), from(sums)};
  if (torch_call_dispatcher(op, "out", stack.data(), TORCH_ABI_VERSION) != 0) {
    const std::string words = torchs_words();
    fail("tileon: torch's own ", op, " failed on the CPU", words.empty() ? "" : ": " + words);
  }
  static_cast<void>(torch::stable::detail::to<Tensor>(stack[0]));  // takes the returned reference back
}

bool float32_products_are_ieee() {
  constexpr int64_t kSize = 32;
  constexpr double kElement = 1 + 1.0 / (1 << 12);  // rounds to 1 in bfloat16 and TF32
  const std::array<int64_t, 2> shape{kSize, kSize};
  const Tensor factor = torch::stable::full({shape.data(), shape.size()}, kElement, ScalarType::Float);
  const Tensor sums = torch::stable::empty_like(factor);
  multiply_into(sums, factor, factor);
  return *static_cast<const float*>(sums.const_data_ptr()) > kSize * kElement;  // the square is larger still
}

std::optional<Tensor> bias_as(ScalarType accumulator, const std::optional<Tensor>& bias) {
  if (!bias) return std::nullopt;
  const TensorView view(*bias);  // each call of torch's takes half a microsecond to find that nothing is to be done
  if (view.type() == accumulator && (view.strides[0] == 1 || view.sizes[0] == 1)) return bias;
  return made_contiguous(converted(*bias, accumulator));
}

FinishedSums finished_sums(const Epilogue& epilogue, const std::optional<Tensor>& bias, const GlobalScale& global_scale,
                           const Tensor& out) {
  return {output_of(out),
          *dtype_of(out.scalar_type()),
          out.size(out.dim() - 2),
          epilogue.activation,
          epilogue.slope,
          global_scale,
          bias ? bias->const_data_ptr() : nullptr};
}

void write_block(const FinishedSums& finished, const float* sums, int64_t stride, int64_t row, int64_t rows,
                 int64_t col, int64_t cols) {
  write_block(finished, SumsBlock<float>{sums, stride, row, rows, col, cols});
}

void write_block(const FinishedSums& finished, const double* sums, int64_t stride, int64_t row, int64_t rows,
                 int64_t col, int64_t cols) {
  write_block(finished, SumsBlock<double>{sums, stride, row, rows, col, cols});
}

void write_output(const Tensor& sums, const Epilogue& epilogue, const std::optional<Tensor>& bias,
                  const GlobalScale& global_scale, const Tensor& out) {
  const bool is_finished = !has_epilogue(epilogue) && global_scale.data == nullptr;
  if (is_finished && sums.const_data_ptr() == out.const_data_ptr()) return;
  const std::optional<Tensor> added = bias_as(sums.scalar_type(), bias);
  const FinishedSums finished = finished_sums(epilogue, added, global_scale, out);
  const int64_t dims = out.dim(), batch = dims == 3 ? out.size(0) : 1, n = out.size(dims - 1);
  if (sums.scalar_type() == ScalarType::Double)
    write_output_of<double>(sums, finished, batch, n);
  else
    write_output_of<float>(sums, finished, batch, n);
}

}  // namespace tileon
