#include "tuning/kernel_log.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tuning/problem_key.h"

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

// "none", "relu", "bias", "bias+relu"
std::string epilogue_name(const Epilogue& epilogue) {
  const std::string activation = kActivations[static_cast<int>(epilogue.activation)].name;
  if (epilogue.bias == nullptr) return activation;
  return epilogue.activation == Activation::kNone ? "bias" : "bias+" + activation;
}

// A call, and what ran it.
void print_line(const std::string& call) {
  std::fprintf(stderr, "tileon: %s %s%s\n", call.c_str(), last_record.kernel, text_of(last_record.notes).c_str());
}

// " m=4096"
std::string size(const char* name, int64_t value) { return std::string(" ") + name + "=" + std::to_string(value); }

std::string conversion(const char* from, const char* to) { return std::string(" ") + from + "->" + to; }

// "bfloat16", "float32(tf32)", "mxfp4(fast)"
std::string operands_text(const Problem& problem) {
  const bool is_fast = problem.is_scaled() && problem.fast_accum;
  return operands_name(problem) + (is_fast ? "(fast)" : is_tf32(problem) ? "(tf32)" : "");
}

}  // namespace

bool log_is_on() {
  static const bool on = [] {
    const char* value = std::getenv("TILEON_LOG");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return on;
}

void record_kernel(const char* kernel, const RunNotes& notes) { last_record = {kernel, notes}; }

std::string last_kernel() { return last_record.kernel + text_of(last_record.notes); }

void log_call(const Problem& problem) {
  if (!log_is_on()) return;
  print_line((problem.is_scaled() ? "block_scaled_matmul" : "matmul" + size("batch", problem.batch)) +
             size("m", problem.m) + size("n", problem.n) + size("k", problem.k) +
             conversion(operands_text(problem).c_str(), info(problem.out_dtype).name) + " " +
             epilogue_name(problem.epilogue));
}

void log_call(const QuantizeProblem& problem) {
  if (!log_is_on()) return;
  print_line("quantize" + size("rows", problem.rows) + size("k", problem.k) +
             conversion(info(problem.dtype).name, info(problem.format).name));
}

void log_call(const DequantizeProblem& problem) {
  if (!log_is_on()) return;
  print_line("dequantize" + size("rows", problem.rows) + size("k", problem.k) +
             conversion(info(problem.format).name, info(problem.out_dtype).name));
}

void log_call(const ScalePackProblem& problem) {
  if (!log_is_on()) return;
  print_line((problem.to_packed ? "pack_scales" : "unpack_scales") + size("rows", problem.rows) +
             size("cols", problem.cols));
}

void log_call(const EpilogueBackwardProblem& problem) {
  if (!log_is_on()) return;
  print_line("epilogue_backward" + size("batch", problem.batch) + size("m", problem.m) + size("n", problem.n) +
             conversion(info(problem.grad_dtype).name, info(problem.out_dtype).name) +
             (problem.grad_bias == nullptr ? " " : " bias+") + kActivations[static_cast<int>(problem.activation)].name);
}

}  // namespace tileon
