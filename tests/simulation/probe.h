// How the probes' kernels are launched, and what went wrong.
#pragma once

#include <exception>
#include <string>

#include "cuda/runtime/runtime.h"
#include "cuda/sm90/launch/launch.h"
#include "runtime.h"
#include "state.h"

namespace tileon {

inline std::string probe_text;

// Null, or what went wrong.
template <typename Params>
const char* run(KernelFunction<Params> kernel, const Params& params, LaunchConfig config, bool together = false) {
  simulation::label = "";
  try {
    if (together && !launch_kernel_together("launching a probe", config, kernel, params)) return "too many CTAs";
    if (!together) launch_kernel("launching a probe", config, kernel, params);
  } catch (const std::exception& error) {
    probe_text = error.what();
    return probe_text.c_str();
  }
  if (simulation::synchronize()) return nullptr;
  probe_text = simulation::last_fault();
  return probe_text.c_str();
}

inline LaunchConfig config_of(int threads, int shared_bytes = 0) {
  return {.grid = dim3(1), .threads = threads, .stream = nullptr, .shared_bytes = shared_bytes};
}

}  // namespace tileon
