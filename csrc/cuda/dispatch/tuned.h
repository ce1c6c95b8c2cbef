// The choice of a row by what was measured: the table of tuned rows, and the calls into Python's tuner that fill it.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <array>
#include <atomic>

#include "checks/block_scaled.h"
#include "checks/matmul.h"
#include "cuda/runtime/error.h"
#include "tuning/problem_key.h"
#include "tuning/tuned_configs.h"

namespace tileon {

using torch::stable::detail::from;

// Python's tuner says itself what it could not do; what comes through all the same, such as a KeyboardInterrupt, ends
// the call. Its type does not come through torch's C interface: tileon_ops/_rules/errors.py gives it back.
template <size_t kArguments>
void call_tuner(const char* op, std::array<StableIValue, kArguments> stack) {
  if (torch_call_dispatcher(op, "", stack.data(), TORCH_ABI_VERSION) == 0) return;
  const std::string words = torchs_words();
  fail(op, ": the tuner was interrupted", words.empty() ? "" : ": " + words);
}

inline void measure_rows(const MatmulArguments& arguments) {
  call_tuner("tileon::_tune_matmul",
             std::array{from(arguments.a), from(arguments.b), from(arguments.bias), from(arguments.activation),
                        from(arguments.slope), from(arguments.out_dtype), from(arguments.allow_tf32),
                        from(arguments.fast_accum)});
}

inline void measure_rows(const BlockScaledArguments& arguments) {
  call_tuner("tileon::_tune_block_scaled_matmul",
             std::array{from(arguments.a), from(arguments.b), from(arguments.scale_a), from(arguments.scale_b),
                        from(arguments.bias), from(arguments.global_scale), from(arguments.activation),
                        from(arguments.slope), from(arguments.out_dtype), from(arguments.fast_accum)});
}

// Whether this thread is inside the tuner, whose products must not be tuned themselves.
inline thread_local bool is_measuring = false;

// Measuring allocates and waits. Where another thread captures a graph in the default mode, the first such call of any
// thread would end its capture: this thread's calls are to be held against its own captures alone.
class Measuring {
 public:
  Measuring() {
    is_measuring = true;
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~Measuring() {
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
    is_measuring = false;
  }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeThreadLocal;
};

inline bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "asking whether the stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

inline void load_tuned_rows(int device) {
  static std::array<std::atomic<bool>, kMaxDevices> asked{};
  if (asked[device].load(std::memory_order_relaxed)) return;  // an exchange alone would cost every product some ns
  if (!asked[device].exchange(true)) call_tuner("tileon::_load_tuned_rows", std::array{from(int64_t{device})});
}

// The name of the row that was measured to be the fastest for the problem; null where that is not known. With
// TILEON_TUNE=1 it is measured now, except while a graph is captured, and except for an output that lies otherwise than
// the tuner's. `can_measure`: the tuner's op states the rest of the problem.
template <typename Arguments>
const char* name_of_measured_row(const Problem& problem, const Arguments& arguments, int device, cudaStream_t stream,
                                 bool can_measure) {
  const Tuner tuner = announced_tuner();
  if (tuner.loads) load_tuned_rows(device);
  const bool measures = tuner.tunes && can_measure && !is_measuring;
  if (!measures && !has_tuned_rows()) return nullptr;
  const std::string text = problem_text(problem);
  const char* row = tuned_row(device, text);
  if (row != nullptr || !measures || fresh_problem_text(problem) != text || is_captured(stream)) return row;
  {
    const Measuring measuring;
    measure_rows(arguments);
  }
  return tuned_row(device, text);
}

}  // namespace tileon
