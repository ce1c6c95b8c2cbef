// Products whose weight the main loop decodes, converts or folds: what block_scaled.cpp knows of them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/heuristics/config.h"

namespace tileon::sm90 {

constexpr bool reads_weight_in_main_loop(Operands operands) {
  return is_decoded_weight(operands) || is_folded_weight(operands);
}

// By config `config` of kBlockScaledConfigs.
int64_t main_loop_weight_scratch_bytes(int config, const Problem& problem, const Gpu& gpu);

// Returns the device flag that says where a decoded operand lost something.
DeviceFlag run_main_loop_weight(int config, const Problem& problem, const Gpu& gpu, void* scratch, cudaStream_t stream);

}  // namespace tileon::sm90
