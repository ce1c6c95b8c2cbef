// The table of a product's backends: numbering, choice, what may be chosen. Plain C++.
#pragma once

#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "cuda/runtime/backend.h"
#include "tuning/batch_invariance.h"

namespace tileon {

// Whether the library may choose Hopper's own kernels: TILEON_HOPPER=0 (read once) leaves the portable ones.
inline bool may_choose_hopper() {
  static const bool may = [] {
    const char* setting = std::getenv("TILEON_HOPPER");
    return setting == nullptr || std::strcmp(setting, "0") != 0;
  }();
  return may;
}

inline bool is_for(const Backend& backend, const Gpu& gpu) {
  return gpu.capability >= backend.min_capability && gpu.capability <= backend.max_capability &&
         (backend.max_capability != 90 || may_choose_hopper());
}

// Whether the order of a config's sums depends on the number of rows: so many tiles leave so many CTAs to share k.
inline bool depends_on_rows(const Backend& backend, int number) {
  return std::strcmp(backend.config_fields(number).family, "small_m") == 0;
}

// The backend's choice where results are batch invariant: what fixed rows would have, or the fastest for the problem's
// own rows of the configs that add as that one does. What it takes is said of the fixed rows, by which it is compared.
inline Choice invariant_choice_of(const Backend& backend, Problem problem, const Gpu& gpu) {
  Choice choice = backend.choose_config(with_fixed_rows(problem), gpu);
  if (choice.config < 0 || depends_on_rows(backend, choice.config)) return {};
  problem.may_slice_k = false;
  if (backend.choose_alike != nullptr) choice.config = backend.choose_alike(problem, gpu, choice.config);
  return choice.config >= 0 && backend.why_not(choice.config, problem, gpu) == nullptr ? choice : Choice{};
}

// The backend's choice for the problem, its config negative where it has none.
inline Choice choice_of(const Backend& backend, const Problem& problem, const Gpu& gpu) {
  return is_batch_invariant.load(std::memory_order_relaxed) ? invariant_choice_of(backend, problem, gpu)
                                                            : backend.choose_config(problem, gpu);
}

// A config by its backend, and by its number there.
struct BackendConfig {
  const Backend* backend = nullptr;
  int number = -1;

  const char* name() const { return backend->config_name(number); }
  std::string operands() const { return backend->config_fields(number).operands; }
  const char* why_not(const Problem& problem, const Gpu& gpu) const { return backend->why_not(number, problem, gpu); }
  int64_t scratch_bytes(const Problem& problem, const Gpu& gpu) const {
    return backend->scratch_bytes == nullptr ? 0 : backend->scratch_bytes(number, problem, gpu);
  }

  // Whether the library may choose it for the problem as its operands lie.
  bool is_candidate(const Problem& problem, const Gpu& gpu) const {
    return is_for(*backend, gpu) && why_not(problem, gpu) == nullptr &&
           (backend->may_choose == nullptr || backend->may_choose(number, problem));
  }
};

// A config that was chosen, without a backend where there is none, and what it is expected to take in nanoseconds:
// negative where that is not known.
struct Weighed {
  BackendConfig config;
  double expected_ns = -1;
};

struct Backends {
  std::span<const Backend* const> all;

  // Calls visit(index, config) of every config, until that returns true.
  template <typename Visit>
  void visit(const Visit& visit_config) const {
    int index = 0;
    for (const Backend* backend : all)
      for (int number = 0; number < backend->config_count(); ++number)
        if (visit_config(index++, BackendConfig{backend, number})) return;
  }

  int config_count() const {
    int count = 0;
    for (const Backend* backend : all) count += backend->config_count();
    return count;
  }

  // The first config of which is_it(index, config) holds.
  template <typename IsIt>
  std::optional<BackendConfig> find(const IsIt& is_it) const {
    std::optional<BackendConfig> found;
    visit([&](int index, const BackendConfig& config) {
      if (is_it(index, config)) found = config;
      return found.has_value();
    });
    return found;
  }

  // Config `index` of the table, if there is one.
  std::optional<BackendConfig> at(int64_t index) const {
    return find([&](int each, const BackendConfig&) { return each == index; });
  }

  // The config of this name, if it may be chosen.
  std::optional<BackendConfig> candidate(const char* name, const Problem& problem, const Gpu& gpu) const {
    return find([&](int, const BackendConfig& config) {
      return std::strcmp(config.name(), name) == 0 && config.is_candidate(problem, gpu);
    });
  }

  // What the first willing backend chooses, or a later one that is expected to take less; of configs that need no
  // scratch where there is none; no backend where none is for the GPU.
  Weighed weigh(const Problem& problem, const Gpu& gpu, bool has_scratch = true) const {
    for (const Backend* backend : all) {
      const Choice choice = is_for(*backend, gpu) ? choice_of(*backend, problem, gpu) : Choice{};
      const BackendConfig config{backend, choice.config};
      if (config.number >= 0 && (has_scratch || config.scratch_bytes(problem, gpu) == 0))
        return or_faster(*backend, choice, problem, gpu);
    }
    return {};
  }
  BackendConfig choose(const Problem& problem, const Gpu& gpu, bool has_scratch = true) const {
    return weigh(problem, gpu, has_scratch).config;
  }

  // What this backend chooses, or one behind it; none where this one is not willing.
  Weighed weigh_from(const Backend& backend, const Problem& problem, const Gpu& gpu) const {
    const Choice choice = choice_of(backend, problem, gpu);
    return choice.config < 0 ? Weighed{} : or_faster(backend, choice, problem, gpu);
  }

  // A backend's choice, or that of a backend behind it whose compared time is less.
  Weighed or_faster(const Backend& first, const Choice& choice, const Problem& problem, const Gpu& gpu) const {
    Weighed best{{&first, choice.config}, choice.expected_ns};
    double best_ns = choice.compared_ns;
    bool is_behind = false;
    for (const Backend* backend : all) {
      if (is_behind && best_ns >= 0 && is_for(*backend, gpu)) {
        const Choice other = choice_of(*backend, problem, gpu);
        if (other.compared_ns >= 0 && other.compared_ns < best_ns) {
          best = {{backend, other.config}, other.expected_ns};
          best_ns = other.compared_ns;
        }
      }
      is_behind = is_behind || backend == &first;
    }
    return best;
  }

  // What the first willing backend chooses that computes under a device flag; one always does.
  BackendConfig choose_portable(const Problem& problem, const Gpu& gpu) const {
    for (const Backend* backend : all) {
      if (!backend->heeds_device_flag) continue;
      const BackendConfig config{backend, choice_of(*backend, problem, gpu).config};
      if (config.number >= 0) return config;
    }
    return {};
  }

  // A line for each config: its fields as key=value, which tileon_ops/_rules/configs.py reads.
  std::string text() const {
    std::string lines;
    visit([&](int index, const BackendConfig& config) {
      const ConfigFields fields = config.backend->config_fields(config.number);
      const auto number = [](int value) { return std::to_string(value); };
      lines += "index=" + number(index) + " name=" + config.name() + " operands=" + fields.operands +
               " backend=" + fields.backend + " family=" + fields.family + " route=" + fields.route +
               " tile=" + number(fields.tile_m) + "x" + number(fields.tile_n) + "x" + number(fields.block_k) +
               " splits=" + number(fields.splits) + " measured=" + number(fields.measured) + "\n";
      return false;
    });
    return lines;
  }

  // A line for each config that may be chosen: number and name.
  std::string candidates_text(const Problem& problem, const Gpu& gpu) const {
    std::string lines;
    visit([&](int index, const BackendConfig& config) {
      if (config.is_candidate(problem, gpu)) lines += std::to_string(index) + " " + config.name() + "\n";
      return false;
    });
    return lines;
  }
};

}  // namespace tileon
