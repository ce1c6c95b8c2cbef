// From a problem and a row of the table to a kernel's parameters.
#pragma once

#include "config.h"
#include "kernel_params.h"

namespace tileon::sm90 {

struct LaunchPlan {
  KernelParams params;
  Major major_a;
  Major major_b;
  int clusters;  // along the grid's x; along y the CTAs of each, as many as the row splits k
  int shared_bytes;
};

// The problem is not empty (k may be 0) and the row supports it. `float8_k`: of pairs of fp8, how many elements there
// are along k, of which the last pair may lack one; 0 where the elements have 16 bits.
LaunchPlan plan_launch(const Row& row, const GemmProblem& problem, const Gpu& gpu, int64_t float8_k = 0);

}  // namespace tileon::sm90
