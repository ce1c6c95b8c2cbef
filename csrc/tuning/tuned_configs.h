// The rows of the tile tables that measuring found to be the fastest, by GPU and problem, for this process. Empty until
// Python's tuner fills it (tileon_ops/tune/); the choice then asks here first.
#pragma once

#include <string>

namespace tileon {

constexpr int kMaxDevices = 64;  // that the library counts

// From now on CUDA device `device` computes the problem of this text (problem_key.h) by the row of this name; "" takes
// that back. A name that no table has, such as "default", leaves the problem to the library's choice.
void set_tuned_row(int device, const std::string& problem, const std::string& row);

// The row's name, which lives forever; null where none was set.
const char* tuned_row(int device, const std::string& problem);

bool has_tuned_rows();
void clear_tuned_rows();

// What Python's tuner does, said once it is there: whether it has rows to load at a device's first product, and whether
// it measures problems that it does not know at their first one.
struct Tuner {
  bool loads = false;
  bool tunes = false;
};

void announce_tuner(Tuner tuner);
Tuner announced_tuner();

}  // namespace tileon
