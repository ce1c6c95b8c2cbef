// A folder of kernels as the rest of the library knows it. Those of a product stand in one table
// (cuda/dispatch/backends.h), and their configs are numbered through all of them, in order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "core/problem.h"
#include "cuda/common/kernel_choice.h"

namespace tileon {

// What the private ops say of a config (Backends::text), for tests, benchmarks and reports.
struct ConfigFields {
  std::string operands;  // dtypes or formats, comma-separated; two with a * are those of a and b
  const char* backend;
  const char* family;           // of the backend's kernels
  const char* route;            // what becomes of the operands before they are multiplied, or of the sums
  int tile_m, tile_n, block_k;  // of the output, and of a stage; zeros where the tile is another library's
  int splits = 1;               // CTAs that share a tile's k
  bool measured = true;         // whether the config has run on hardware
};

// The copy of an operand that kernels want before they read it: in an aligned buffer, its rows or columns as they are,
// or always rows along k.
enum class WantedCopy : int8_t { kNone, kAsItLies, kAlongK };

struct Backend {
  int min_capability;  // major * 10 + minor
  int max_capability;
  int (*config_count)();
  const char* (*config_name)(int config);
  ConfigFields (*config_fields)(int config);
  const char* (*why_not)(int config, const Problem&, const Gpu&);  // null where it can run the problem as it lies
  bool (*may_choose)(int config, const Problem&);                  // by its accuracy; null where every config may
  // Where the first backend's choice has a time to be compared, and a later backend's is less, that one is taken; else
  // the first one stands.
  Choice (*choose_config)(const Problem&, const Gpu&);
  // Null for products with scales, of which every backend wants the same copies (wants_copy_of_codes).
  WantedCopy (*wants_copy)(Side, const Problem&);
  int64_t (*scratch_bytes)(int config, const Problem&, const Gpu&);  // null where no config needs any
  // Launches; throws std::runtime_error where CUDA refuses. The problem is not empty (k may be 0), the config can run
  // it, `scratch` begins at a multiple of 256 or is not needed. Returns the device flag under which the portable
  // kernels must compute the product anew: none where there are no words in it.
  DeviceFlag (*run)(int config, const Problem&, const Gpu&, void* scratch, cudaStream_t);
  // The configs that choose_config weighs, a line each: name, and what it expects of it in nanoseconds, with the terms
  // of its cost where it has any. Null where nothing is weighed.
  std::string (*explain)(const Problem&, const Gpu&) = nullptr;
  // Of the configs that add the products of each sum in one order, that of `config` or a better one, the one that is
  // expected to be fastest; negative where none runs the problem. Null where no two configs have one order.
  int (*choose_alike)(const Problem&, const Gpu&, int config) = nullptr;
  // Whether its kernels compute a product only where the problem's device flag holds. They need no scratch for that.
  bool heeds_device_flag = false;
};

}  // namespace tileon
