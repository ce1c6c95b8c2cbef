// What the host hands to a kernel for few rows.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/common/kernel_problem.h"

namespace tileon::sm90 {

struct SmallMParams {
  CUtensorMap map_a;  // codes, as bytes
  CUtensorMap map_b;
  int tiles_n;
  int stages;             // of the pipeline
  int blocks;             // of k, a stage each
  int blocks_per_split;   // the last splits may have fewer, or none
  int splits;             // CTAs of a cluster
  bool scales_in_blocks;  // of both operands: TMA copies them; else threads do
  bool vector_stores;     // four neighbouring columns of the output can be stored at once
  ScaledKernelProblem problem;
};

}  // namespace tileon::sm90
