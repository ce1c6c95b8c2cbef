// The choice of a config by what was measured: the tuned configs, and the calls into Python's tuner that set them.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <array>
#include <atomic>

#include "checks/products.h"
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

inline void measure_configs(const ProductArguments& call) {
  if (call.scale_b == nullptr)
    return call_tuner("tileon::_tune_matmul",
                      std::array{from(call.a), from(call.b), from(call.bias), from(call.activation), from(call.slope),
                                 from(call.out_dtype), from(call.allow_tf32), from(call.fast_accum)});
  call_tuner("tileon::_tune_block_scaled_matmul",
             std::array{from(call.a), from(call.b), from(*call.scale_a), from(*call.scale_b), from(call.bias),
                        from(call.global_scale), from(call.activation), from(call.slope), from(call.out_dtype),
                        from(call.fast_accum)});
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

inline void load_tuned_configs(int device) {
  static std::array<std::atomic<bool>, kMaxDevices> asked{};
  if (asked[device].load(std::memory_order_relaxed)) return;  // an exchange alone would cost every product some ns
  if (!asked[device].exchange(true)) call_tuner("tileon::_load_tuned_configs", std::array{from(int64_t{device})});
}

// The name of the config that was measured to be the fastest for the problem; null where that is not known. With
// TILEON_TUNE=1 it is measured now, except while a graph is captured, and except for what the tuner's op does not
// state: an output laid out unlike the op's own, a prepared weight, the argument of the activation kept besides.
inline const char* name_of_measured_config(const Problem& problem, const ProductArguments& arguments, int device,
                                           cudaStream_t stream) {
  if (announced_tuner.loads) load_tuned_configs(device);
  const bool measures =
      announced_tuner.tunes && !is_measuring && problem.pre_activation == nullptr && problem.prepared_b.data == nullptr;
  if (!measures && !has_tuned_configs) return nullptr;
  const std::string text = problem_text(problem);
  const char* config = tuned_config(device, text);
  if (config != nullptr || !measures || fresh_problem_text(problem) != text || is_captured(stream)) return config;
  {
    const Measuring measuring;
    measure_configs(arguments);
  }
  return tuned_config(device, text);
}

}  // namespace tileon
