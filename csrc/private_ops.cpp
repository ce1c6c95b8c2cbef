// The ops by which Python's tuner names problems and sets the configs that compute them, and the setting of batch
// invariance.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <string>

#include "checks/scaled_products.h"
#include "entry/registration.h"
#include "tuning/batch_invariance.h"
#include "tuning/problem_key.h"
#include "tuning/tuned_configs.h"

namespace tileon {
namespace {

std::string text_of(const Problem& problem, const ProductArguments&) { return fresh_problem_text(problem); }

int device_index(const char* op, int64_t device) {
  if (device < 0 || device >= kMaxDevices)
    fail(op, ": `device` must be at least 0 and below ", kMaxDevices, ", got ", device);
  return static_cast<int>(device);
}

void set_config(int64_t device, const std::string& problem, const std::string& config) {
  set_tuned_config(device_index("_set_tuned_config", device), problem, config);
}

std::string config_of(int64_t device, const std::string& problem) {
  const char* config = tuned_config(device_index("_tuned_config", device), problem);
  return config == nullptr ? "" : config;
}

void announce(bool loads, bool tunes) {
  announced_tuner.loads = loads;
  announced_tuner.tunes = tunes;
}

bool set_batch_invariant(bool on) { return is_batch_invariant.exchange(on); }

}  // namespace
}  // namespace tileon

TILEON_KERNELS(CompositeExplicitAutograd, m) {
  m.impl("_matmul_problem", TORCH_BOX(&tileon::of_matmul<&tileon::text_of>));
  m.impl("_block_scaled_matmul_problem", TORCH_BOX(&tileon::of_block_scaled<&tileon::text_of>));
  m.impl("_set_tuned_config", TORCH_BOX(&tileon::set_config));
  m.impl("_tuned_config", TORCH_BOX(&tileon::config_of));
  m.impl("_clear_tuned_configs", TORCH_BOX(&tileon::clear_tuned_configs));
  m.impl("_announce_tuner", TORCH_BOX(&tileon::announce));
  m.impl("_set_batch_invariant", TORCH_BOX(&tileon::set_batch_invariant));
}
