// Block-scaled operands as the wgmma kernels take them: rows of numbers without scales, both operands in one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "../../../problem.h"
#include "config.h"

namespace tileon::sm90 {

struct PreparedOperand {
  void* rows;          // [mn][k] of bfloat16 or of int8
  uint8_t* exponents;  // of int8: a byte for each row, the exponent field of the power of two that the row lacks
};

// The problem's operands have contiguous rows of codes, aligned as sm80::reads says.
struct PrepareParams {
  BlockScaledProblem problem;
  PreparedOperand a, b;
  uint32_t* words;  // of the CTAs (prepare_ctas): not 0 where a row lost something
  int strips;       // that a row is cut into, a warp each; of int8 one
};

// Elements times scales as bfloat16, exactly, but for e4m3 under scales below 2^-124: there a word is set.
void run_prepare_bfloat16(const PrepareParams& params, cudaStream_t stream);

// mxfp4 as int8: in halves the elements are 0, 1, 2, 3, 4, 6, 8, 12; those of a row whose scales lie within three
// powers of two of its largest, which becomes the row's, are at most 96 then. Where a row does not fit a word is set:
// where scales reach further or are NaN, or where the row's lies outside of [kLeastExponent, kMostExponent], of which
// products and their factors stay clear of float32's ends. Blocks of zeros fit under any scale.
constexpr int kLeastExponent = 67, kMostExponent = 187;  // e8m0 bytes: 2^-60, 2^60
void run_prepare_int8(const PrepareParams& params, cudaStream_t stream);

}  // namespace tileon::sm90
