#include "kernel_log.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tileon {
namespace {

struct KernelRecord {
  const char* kernel = "";
  bool copied_a = false;
  bool copied_b = false;
};

thread_local KernelRecord last_record;

const char* copies(const KernelRecord& record) {
  if (record.copied_a && record.copied_b) return " (a, b copied)";
  if (record.copied_a) return " (a copied)";
  return record.copied_b ? " (b copied)" : "";
}

bool log_is_on() {
  static const bool on = [] {
    const char* value = std::getenv("TILEON_LOG");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return on;
}

}  // namespace

void record_kernel(const char* kernel, bool copied_a, bool copied_b) { last_record = {kernel, copied_a, copied_b}; }

std::string last_kernel() { return std::string(last_record.kernel) + copies(last_record); }

void log_call(const GemmProblem& problem) {
  if (!log_is_on()) return;
  const Epilogue& epilogue = problem.epilogue;
  const bool activated = epilogue.activation != Activation::kNone;
  const char* bias = epilogue.bias == nullptr ? "" : activated ? "bias+" : "bias";
  const char* activation =
      activated || epilogue.bias == nullptr ? kActivations[static_cast<int>(epilogue.activation)].name : "";
  const bool mixed = problem.dtype != problem.b_dtype;
  std::fprintf(stderr, "tileon: matmul batch=%lld m=%lld n=%lld k=%lld %s%s%s%s->%s %s%s %s%s\n",
               static_cast<long long>(problem.batch), static_cast<long long>(problem.m),
               static_cast<long long>(problem.n), static_cast<long long>(problem.k), info(problem.dtype).name,
               mixed ? "*" : "", mixed ? info(problem.b_dtype).name : "",
               problem.allow_tf32 && problem.dtype == DType::kFloat32 ? "(tf32)" : "", info(problem.out_dtype).name,
               bias, activation, last_record.kernel, copies(last_record));
}

}  // namespace tileon
