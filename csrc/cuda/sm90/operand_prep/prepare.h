// Operands as the wgmma kernels take them: of block-scaled products rows of numbers whose blocks have no scales, of
// float32 three bfloat16 for a number. Both operands in one launch; scales of mxfp4 are classified before.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/common/kernel_choice.h"
#include "cuda/sm90/layout/encoding.h"

namespace tileon::sm90 {

// The problems' operands have contiguous rows of codes, as wants_copy_of_codes (kernel_choice.h) sees to.

struct PreparedOperand {
  void* rows;          // [mn][k] of bfloat16 or of bytes
  uint8_t* exponents;  // of mxfp4: of each row its largest scale, within [kMinExponent, kMaxExponent]
};

struct PrepareParams {
  ScaledKernelProblem problem;
  PreparedOperand a, b;
  int segments;     // that a row is cut into
  uint32_t* words;  // of the CTAs (prepare_ctas), where an operand is e4m3: not 0 where a row lost something
  // `other_word`: the word of a weight that is prepared already, which the first CTA adds to its own. `all`: where a
  // weight's own word is gathered from all CTAs. Either may be null.
  const uint32_t* other_word;
  uint32_t* all;
};

// Elements times scales as bfloat16: exact but for e4m3 under scales below 2^-124, where a word is set.
void run_prepare_bfloat16(const PrepareParams& params, cudaStream_t stream);

struct ClassifyScalesParams {
  ScaledKernelProblem problem;
  uint8_t* exponents_a;  // as PreparedOperand's
  uint8_t* exponents_b;
  uint32_t* words;             // classify_ctas of them: which encodings rows do not fit (layout/encoding.h)
  const uint32_t* other_word;  // as PrepareParams'
  uint32_t* all;
};

// Of mxfp4. Where a weight is prepared already the problem has no rows of it.
void run_classify_scales(const ClassifyScalesParams& params, cudaStream_t stream);

struct PrepareMxfp4Params {
  ScaledKernelProblem problem;
  PreparedOperand a, b;
  int segments_a, segments_b;
  EncodingChoice choice;  // from the words of classify_scales
  bool b_is_int8;         // b is prepared as int8: only other encodings are written
};

// Fills the rows with mxfp4 in the encoding that `choice` says.
void run_prepare_mxfp4(const PrepareMxfp4Params& params, cudaStream_t stream);

// Fills `scratch`, as Bf16x3Scratch says, with both float32 operands of the problem in three parts, whatever their
// strides. Returns the device flag that is set where a number is above 2^56, infinite, NaN, or not the sum of its
// parts: most numbers below 2^-110 are not, since bfloat16 does not hold their last part.
DeviceFlag run_split_float32(const Problem& problem, int sm_count, void* scratch, cudaStream_t stream);

}  // namespace tileon::sm90
