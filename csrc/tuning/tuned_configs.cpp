#include "tuning/tuned_configs.h"

#include <atomic>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

namespace tileon {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<std::string, const char*> rows;
  std::set<std::string> names;       // those that were ever set: pointers to them stay valid
  std::atomic<bool> is_empty{true};  // read by every product
};

// Never destroyed: products may still run while the process ends.
Table& table() {
  static Table& instance = *new Table;
  return instance;
}

std::string key(int device, const std::string& problem) { return std::to_string(device) + " " + problem; }

std::atomic<bool> tuner_loads{false};
std::atomic<bool> tuner_tunes{false};

}  // namespace

void set_tuned_row(int device, const std::string& problem, const std::string& row) {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  if (row.empty()) {
    all.rows.erase(key(device, problem));
  } else {
    all.rows[key(device, problem)] = all.names.insert(row).first->c_str();
  }
  all.is_empty = all.rows.empty();
}

const char* tuned_row(int device, const std::string& problem) {
  Table& all = table();
  const std::shared_lock lock(all.mutex);
  const auto found = all.rows.find(key(device, problem));
  return found == all.rows.end() ? nullptr : found->second;
}

bool has_tuned_rows() { return !table().is_empty.load(std::memory_order_relaxed); }

void clear_tuned_rows() {
  Table& all = table();
  const std::unique_lock lock(all.mutex);
  all.rows.clear();
  all.is_empty = true;
}

void announce_tuner(Tuner tuner) {
  tuner_loads = tuner.loads;
  tuner_tunes = tuner.tunes;
}

Tuner announced_tuner() {
  return {tuner_loads.load(std::memory_order_relaxed), tuner_tunes.load(std::memory_order_relaxed)};
}

}  // namespace tileon
