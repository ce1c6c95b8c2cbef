// The portable kernels by number: the step from a config and a problem to a launch.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"
#include "cuda/sm80/heuristics/config.h"
#include "cuda/sm80/heuristics/k_slices.h"

namespace tileon::sm80 {

// Launches config `config` of the kind's table for a problem of this kind; false where the config does not multiply the
// kind. Of several slices the output is their sums (k_slices.h). The definition stands in instantiate.cuh, its
// instances in instances/.
template <Kind kKind>
bool launch_config(int config, const Problem& problem, const KSlices& slices, cudaStream_t stream);

// Launches a config of kDecodedConfigs; the problem has scales.
void launch_decoded(int config, const Problem& problem, cudaStream_t stream);

// Adds up the sums of the slices, and makes the problem's output of them.
void launch_add_slices(const Problem& problem, const void* sums, int slices, const Gpu& gpu, cudaStream_t stream);

}  // namespace tileon::sm80
