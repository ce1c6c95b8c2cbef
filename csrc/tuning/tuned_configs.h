// The configs that measuring found to be the fastest, by GPU and problem, for this process. Empty until Python's tuner
// fills it (tileon_ops/tune/); the choice then asks here first.
#pragma once

#include <atomic>
#include <string>

namespace tileon {

constexpr int kMaxDevices = 64;  // that the library counts

// From now on CUDA device `device` computes the problem of this text (problem_key.h) by the config of this name; ""
// takes an earlier name back. A name that no table has, such as "default", leaves the problem to the library's choice.
void set_tuned_config(int device, const std::string& problem, const std::string& config);

// The config's name, which lives forever; null where none was set.
const char* tuned_config(int device, const std::string& problem);

void clear_tuned_configs();

// What Python's tuner does, said once it is there: whether it has configs to load at a device's first product, and
// whether it measures problems that it does not know at their first one.
struct Tuner {
  std::atomic<bool> loads{false};
  std::atomic<bool> tunes{false};
};
inline Tuner announced_tuner;
inline std::atomic<bool> has_tuned_configs{false};

}  // namespace tileon
