// From a problem and a row of the table to a kernel's parameters.
#pragma once

#include "cuda/sm90/heuristics/dense.h"
#include "cuda/sm90/layout/kernel_params.h"

namespace tileon::sm90 {

struct LaunchPlan {
  KernelParams params;
  Major major_a;
  Major major_b;
  int clusters;  // along the grid's x; along y the CTAs of each, as many as the row splits k
  int shared_bytes;
};

// What a row's kernel multiplies, beside the problem's dtype.
struct Elements {
  bool dense_16_bit = false;  // not pairs of fp8, nor what block-scaled operands were prepared as
  int64_t float8_k = 0;       // of pairs of fp8, how many elements there are along k: the last pair may lack one
  bool planes = false;        // float32 as three bfloat16 (layout/bf16x3.h): three stages hold the same k
};

// The problem is not empty (k may be 0) and the row supports it.
LaunchPlan plan_launch(const Row& row, const Problem& problem, const Gpu& gpu, const Elements& elements);

}  // namespace tileon::sm90
