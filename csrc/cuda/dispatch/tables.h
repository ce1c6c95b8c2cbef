// The backends of each kind of product, in the order in which they are asked, and how a config runs. The last backend
// of each table takes every problem.
#pragma once

#include "cuda/dispatch/backends.h"
#include "cuda/sm80/sm80.h"
#include "cuda/sm90/sm90.h"

namespace tileon {

constexpr const Backend* kDenseBackends[] = {&sm90::kDenseBackend, &sm80::kDenseBackend};

// Of products with scales whose operands are read as they are.
constexpr const Backend* kOwnScaledBackends[] = {&sm90::kBlockScaledBackend, &sm80::kBlockScaledBackend,
                                                 &sm80::kDecodedBackend};

// Runs a config. Where the data may need the portable kernels, those follow; they leave at once where the data do not.
inline void run_config(const Backends& backends, const BackendConfig& config, const Problem& problem, const Gpu& gpu,
                       void* scratch, cudaStream_t stream) {
  const DeviceFlag flag = config.backend->run(config.number, problem, gpu, scratch, stream);
  if (flag.words == nullptr) return;
  Problem again = problem;
  again.device_flag = flag;
  again.may_slice_k = false;
  const BackendConfig portable = backends.choose_portable(again, gpu);
  portable.backend->run(portable.number, again, gpu, nullptr, stream);
}

}  // namespace tileon
