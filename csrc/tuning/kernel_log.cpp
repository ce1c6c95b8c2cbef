#include "tuning/kernel_log.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tileon {
namespace {

struct KernelRecord {
  const char* kernel = "";
  RunNotes notes;
};

thread_local KernelRecord last_record;

std::string text_of(const RunNotes& notes) {
  std::string text;
  if (notes.copied_a || notes.copied_b) {
    text += notes.copied_a ? " (a" : " (b";
    text += notes.copied_a && notes.copied_b ? ", b copied)" : " copied)";
  }
  if (notes.short_of_memory) text += " (short of memory)";
  return text;
}

bool log_is_on() {
  static const bool on = [] {
    const char* value = std::getenv("TILEON_LOG");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return on;
}

// "none", "relu", "bias", "bias+relu"
std::string epilogue_name(const Epilogue& epilogue) {
  const std::string activation = kActivations[static_cast<int>(epilogue.activation)].name;
  if (epilogue.bias == nullptr) return activation;
  return epilogue.activation == Activation::kNone ? "bias" : "bias+" + activation;
}

}  // namespace

void record_kernel(const char* kernel, const RunNotes& notes) { last_record = {kernel, notes}; }

std::string last_kernel() { return last_record.kernel + text_of(last_record.notes); }

void log_call(const GemmProblem& problem) {
  if (!log_is_on()) return;
  const bool mixed = problem.dtype != problem.b_dtype;
  std::fprintf(stderr, "tileon: matmul batch=%lld m=%lld n=%lld k=%lld %s%s%s%s->%s %s %s%s\n",
               static_cast<long long>(problem.batch), static_cast<long long>(problem.m),
               static_cast<long long>(problem.n), static_cast<long long>(problem.k), info(problem.dtype).name,
               mixed ? "*" : "", mixed ? info(problem.b_dtype).name : "",
               problem.allow_tf32 && problem.dtype == DType::kFloat32 ? "(tf32)" : "", info(problem.out_dtype).name,
               epilogue_name(problem.epilogue).c_str(), last_record.kernel, text_of(last_record.notes).c_str());
}

void log_call(const BlockScaledProblem& problem) {
  if (!log_is_on()) return;
  std::fprintf(stderr, "tileon: block_scaled_matmul m=%lld n=%lld k=%lld %s%s->%s %s %s%s\n",
               static_cast<long long>(problem.m), static_cast<long long>(problem.n), static_cast<long long>(problem.k),
               product_name(problem.a.element, problem.b.element, problem.scale_type),
               problem.fast_accum ? "(fast)" : "", info(problem.out_dtype).name,
               epilogue_name(problem.epilogue).c_str(), last_record.kernel, text_of(last_record.notes).c_str());
}

void log_call(const QuantizeProblem& problem) {
  if (!log_is_on()) return;
  std::fprintf(stderr, "tileon: quantize rows=%lld k=%lld %s->%s %s\n", static_cast<long long>(problem.rows),
               static_cast<long long>(problem.k), info(problem.dtype).name, info(problem.format).name,
               last_record.kernel);
}

void log_call(const DequantizeProblem& problem) {
  if (!log_is_on()) return;
  std::fprintf(stderr, "tileon: dequantize rows=%lld k=%lld %s->%s %s\n", static_cast<long long>(problem.rows),
               static_cast<long long>(problem.k), info(problem.format).name, info(problem.out_dtype).name,
               last_record.kernel);
}

void log_call(const ScalePackProblem& problem) {
  if (!log_is_on()) return;
  std::fprintf(stderr, "tileon: %s rows=%lld cols=%lld %s\n", problem.to_packed ? "pack_scales" : "unpack_scales",
               static_cast<long long>(problem.rows), static_cast<long long>(problem.cols), last_record.kernel);
}

void log_call(const EpilogueBackwardProblem& problem) {
  if (!log_is_on()) return;
  std::fprintf(stderr, "tileon: epilogue_backward batch=%lld m=%lld n=%lld %s->%s %s%s %s\n",
               static_cast<long long>(problem.batch), static_cast<long long>(problem.m),
               static_cast<long long>(problem.n), info(problem.grad_dtype).name, info(problem.out_dtype).name,
               problem.grad_bias == nullptr ? "" : "bias+", kActivations[static_cast<int>(problem.activation)].name,
               last_record.kernel);
}

}  // namespace tileon
