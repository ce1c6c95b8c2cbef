// _epilogue_backward on CPU tensors: one pass over the rows, by the formulas of epilogue.h.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "cpu/device.h"
#include "cpu/multiversion.h"
#include "entry/epilogue_backward.h"
#include "tuning/kernel_log.h"

namespace tileon {
namespace {

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

template <typename Function>
void with_type(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kFloat16:
      return function(Half());
    case DType::kBFloat16:
      return function(BFloat16());
    case DType::kFloat64:
      return function(double());
    default:
      return function(float());  // the checks have refused the others
  }
}

// A row of the gradient, and what was saved of it: nothing where there is no activation.
template <typename Grad>
struct Row {
  const Grad *grad, *saved;
  int64_t stride, n;

  Row(const EpilogueBackwardProblem& problem, int64_t row)
      : grad(static_cast<const Grad*>(problem.grad) + row / problem.m * problem.stride_batch +
             row % problem.m * problem.stride_m),
        saved(problem.saved == nullptr ? nullptr : static_cast<const Grad*>(problem.saved) + row * problem.n),
        stride(problem.stride_n),
        n(problem.n) {}
};

// A row's grad_z, as the accumulator holds it. The compiler makes vectors of it, wide ones since a loop has one width
// of numbers: some are widened at a time.
template <typename Grad, typename Accumulator>
void derive_all(const Row<Grad>& row, Activation activation, Accumulator slope, Accumulator* derived) {
  constexpr int64_t kAtATime = 256;
  Accumulator saved[kAtATime];
  for (int64_t begin = 0; begin < row.n; begin += kAtATime) {
    const int64_t count = std::min(row.n - begin, kAtATime);
    Accumulator* to = derived + begin;
    if (row.stride == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Accumulator>(row.grad[begin + i]);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Accumulator>(row.grad[(begin + i) * row.stride]);
    }
    if (activation == Activation::kNone) continue;
    for (int64_t i = 0; i < count; ++i) saved[i] = static_cast<Accumulator>(row.saved[begin + i]);
    visit_activation(activation, [&](auto which) {
      for (int64_t i = 0; i < count; ++i) to[i] = through_activation(to[i], saved[i], which(), slope);
    });
  }
}

// By the widest vectors of this processor.
TILEON_MULTIVERSION void derive_row(const Row<Half>& row, Activation activation, float slope, float* derived) {
  derive_all(row, activation, slope, derived);
}
TILEON_MULTIVERSION void derive_row(const Row<BFloat16>& row, Activation activation, float slope, float* derived) {
  derive_all(row, activation, slope, derived);
}
TILEON_MULTIVERSION void derive_row(const Row<float>& row, Activation activation, float slope, float* derived) {
  derive_all(row, activation, slope, derived);
}
void derive_row(const Row<double>& row, Activation activation, double slope, double* derived) {
  derive_all(row, activation, slope, derived);
}

TILEON_MULTIVERSION void round_row(const float* derived, int64_t n, Half* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Half>(derived[i]);
}
TILEON_MULTIVERSION void round_row(const float* derived, int64_t n, BFloat16* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<BFloat16>(derived[i]);
}
template <typename Accumulator, typename Out>
void round_row(const Accumulator* derived, int64_t n, Out* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(derived[i]);
}

// Tasks are runs of rows, each with sums of its own, which are added in order: the same bits whatever the threads.
template <typename Grad, typename Out>
void run(const EpilogueBackwardProblem& problem) {
  using Accumulator = std::conditional_t<std::is_same_v<Grad, double>, double, float>;
  constexpr int64_t kElementsPerTask = 1 << 15;  // some 10 us of work: far more than waking a thread costs
  constexpr int64_t kMaxTasks = 64;
  const int64_t rows = problem.rows(), n = problem.n;
  const int64_t rows_per_task =
      std::max(1 + kElementsPerTask / std::max<int64_t>(n, 1), (rows + kMaxTasks - 1) / kMaxTasks);
  const int64_t tasks = (rows + rows_per_task - 1) / rows_per_task;
  const bool wants_bias = problem.grad_bias != nullptr;
  std::vector<Accumulator> sums(wants_bias ? tasks * n : 0, Accumulator(0));
  Out* grad_z = static_cast<Out*>(problem.grad_z);
  torch::stable::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    std::vector<Accumulator> derived(n);
    for (int64_t task = begin; task < end; ++task)
      for (int64_t row = task * rows_per_task; row < std::min(rows, (task + 1) * rows_per_task); ++row) {
        derive_row(Row<Grad>(problem, row), problem.activation, static_cast<Accumulator>(problem.slope),
                   derived.data());
        round_row(derived.data(), n, grad_z + row * n);
        for (int64_t i = 0; wants_bias && i < n; ++i) sums[task * n + i] += derived[i];
      }
  });
  if (!wants_bias) return;
  with_type(problem.bias_dtype, [&](auto type) {
    auto* grad_bias = static_cast<decltype(type)*>(problem.grad_bias);
    for (int64_t i = 0; i < n; ++i) {
      Accumulator total = 0;
      for (int64_t task = 0; task < tasks; ++task) total += sums[task * n + i];
      grad_bias[i] = static_cast<decltype(type)>(total);
    }
  });
}

struct Cpu : CpuDevice {
  static void run(const EpilogueBackwardProblem& problem, const Tensor&) {
    with_type(problem.grad_dtype, [&](auto grad_type) {
      with_type(problem.out_dtype,
                [&](auto out_type) { tileon::run<decltype(grad_type), decltype(out_type)>(problem); });
    });
    record_kernel("cpu_epilogue_backward");
    log_call(problem);
  }
};

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CPU, m) { tileon::EpilogueBackwardEntry<tileon::Cpu>::add_to(m); }
