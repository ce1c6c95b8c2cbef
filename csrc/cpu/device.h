// What every op's Device of CPU tensors says to its entry points (entry/products.h).
#pragma once

#include "checks/operands.h"

namespace tileon {

struct CpuDevice {
  static void require(const char*) {}

  [[noreturn]] static void require_config(const char* op, int64_t config) {
    fail(op, ": `config` ", config, " is a row of the GPU's tile table, got operands on the CPU");
  }
};

}  // namespace tileon
