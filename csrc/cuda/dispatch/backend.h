// What dispatch knows of a folder of kernels: a Backend. Those of a product stand in one table, and their configs are
// numbered through all of them, in order. Plain C++ but for the name of a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "core/device_flag.h"
#include "cuda/runtime/gpu.h"

namespace tileon {

// Whether the library may choose Hopper's own kernels: TILEON_HOPPER=0 (read once) leaves the portable ones.
inline bool may_choose_hopper() {
  static const bool may = [] {
    const char* setting = std::getenv("TILEON_HOPPER");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return may;
}

template <typename Problem>
struct Backend {
  using Operand = decltype(Problem::a);

  int min_capability;  // major * 10 + minor
  int max_capability;
  int (*config_count)();
  const char* (*config_name)(int config);
  std::string (*config_operands)(int config);                      // dtypes or formats, comma-separated
  const char* (*why_not)(int config, const Problem&, const Gpu&);  // null where it can run the problem as it lies
  bool (*may_choose)(int config, const Problem&);                  // by its accuracy; null where every config may
  int (*choose_config)(const Problem&, const Gpu&);                // negative where no config takes the problem
  // Whether an operand ([mn, k], `mn` long) is to be copied into an aligned buffer before these kernels read it.
  bool (*wants_copy)(const Operand&, int64_t mn, const Problem&);
  int64_t (*scratch_bytes)(int config, const Problem&);  // null where no config needs any
  DeviceFlag (*run)(int config, const Problem&, const Gpu&, void* scratch, cudaStream_t);

  bool is_for(const Gpu& gpu) const {
    return gpu.capability >= min_capability && gpu.capability <= max_capability &&
           (max_capability != 90 || may_choose_hopper());
  }
};

// A config by its backend, and by its number there.
template <typename Problem>
struct BackendConfig {
  const Backend<Problem>* backend = nullptr;
  int number = -1;

  const char* name() const { return backend->config_name(number); }
  std::string operands() const { return backend->config_operands(number); }
  const char* why_not(const Problem& problem, const Gpu& gpu) const { return backend->why_not(number, problem, gpu); }
  int64_t scratch_bytes(const Problem& problem) const {
    return backend->scratch_bytes == nullptr ? 0 : backend->scratch_bytes(number, problem);
  }

  // Whether the library may choose it for the problem as its operands lie.
  bool is_candidate(const Problem& problem, const Gpu& gpu) const {
    return backend->is_for(gpu) && why_not(problem, gpu) == nullptr &&
           (backend->may_choose == nullptr || backend->may_choose(number, problem));
  }
};

// The table of a product.
template <typename Problem>
struct Backends {
  std::span<const Backend<Problem>> all;

  // Calls visit(index, config) of every config, until that returns true.
  template <typename Visit>
  void visit(const Visit& visit_config) const {
    int index = 0;
    for (const Backend<Problem>& backend : all)
      for (int number = 0; number < backend.config_count(); ++number)
        if (visit_config(index++, BackendConfig<Problem>{&backend, number})) return;
  }

  int config_count() const {
    int count = 0;
    for (const Backend<Problem>& backend : all) count += backend.config_count();
    return count;
  }

  // Config `index` of the table, if there is one.
  std::optional<BackendConfig<Problem>> at(int64_t index) const {
    std::optional<BackendConfig<Problem>> found;
    visit([&](int each, const BackendConfig<Problem>& config) {
      if (each == index) found = config;
      return found.has_value();
    });
    return found;
  }

  // The config of this name, if it may be chosen.
  std::optional<BackendConfig<Problem>> candidate(const char* name, const Problem& problem, const Gpu& gpu) const {
    std::optional<BackendConfig<Problem>> found;
    visit([&](int, const BackendConfig<Problem>& config) {
      if (std::strcmp(config.name(), name) == 0 && config.is_candidate(problem, gpu)) found = config;
      return found.has_value();
    });
    return found;
  }

  // What the first willing backend chooses, of configs that need no scratch where there is none; no backend where none
  // is for the GPU.
  BackendConfig<Problem> choose(const Problem& problem, const Gpu& gpu, bool has_scratch = true) const {
    for (const Backend<Problem>& backend : all) {
      const BackendConfig<Problem> config{&backend, backend.is_for(gpu) ? backend.choose_config(problem, gpu) : -1};
      if (config.number >= 0 && (has_scratch || config.scratch_bytes(problem) == 0)) return config;
    }
    return {};
  }

  // A line for each config: number, name, operands.
  std::string text() const {
    std::string lines;
    visit([&](int index, const BackendConfig<Problem>& config) {
      lines += std::to_string(index) + " " + config.name() + " " + config.operands() + "\n";
      return false;
    });
    return lines;
  }

  // The same of those that may be chosen, without operands.
  std::string candidates_text(const Problem& problem, const Gpu& gpu) const {
    std::string lines;
    visit([&](int index, const BackendConfig<Problem>& config) {
      if (config.is_candidate(problem, gpu)) lines += std::to_string(index) + " " + config.name() + "\n";
      return false;
    });
    return lines;
  }
};

}  // namespace tileon
