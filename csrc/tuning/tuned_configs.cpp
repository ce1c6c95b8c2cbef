#include "tuning/tuned_configs.h"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

namespace tileon {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<std::string, const char*> configs;
  std::set<std::string> names;  // every name that was ever set, for good: `configs` points here
};

// Never destroyed: products may still run while the process ends.
Table& table() {
  static Table& instance = *new Table;
  return instance;
}

std::string key(int device, const std::string& problem) { return std::to_string(device) + " " + problem; }

}  // namespace

void set_tuned_config(int device, const std::string& problem, const std::string& config) {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  if (config.empty()) {
    all.configs.erase(key(device, problem));
  } else {
    all.configs[key(device, problem)] = all.names.insert(config).first->c_str();
  }
  has_tuned_configs = !all.configs.empty();
}

const char* tuned_config(int device, const std::string& problem) {
  Table& all = table();
  const std::shared_lock lock(all.mutex);
  const auto found = all.configs.find(key(device, problem));
  return found == all.configs.end() ? nullptr : found->second;
}

void clear_tuned_configs() {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  all.configs.clear();
  has_tuned_configs = false;
}

}  // namespace tileon
