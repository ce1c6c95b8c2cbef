// The portable kernels by number: the step from a config and a problem to a launch.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"
#include "cuda/sm80/heuristics/config.h"

namespace tileon::sm80 {

// Launches config `config` of the kind's table for a problem of this kind; false where the config does not multiply the
// kind. The definition stands in instantiate.cuh, its instances in instances/.
template <Kind kKind>
bool launch_config(int config, const Problem& problem, cudaStream_t stream);

// Launches a config of kDecodedConfigs; the problem has scales.
void launch_decoded(int config, const Problem& problem, cudaStream_t stream);

}  // namespace tileon::sm80
