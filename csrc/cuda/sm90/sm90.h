// What the rest of the library may know of the Hopper kernels (compute capability 9.0).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/runtime/backend.h"

namespace tileon::sm90 {

// Of matmul, and of block_scaled_matmul. Configs whose fp8 sums stay in the tensor core may be chosen where the problem
// has fast_accum alone. Operands of block-scaled products lie so that sm80's backend wants no copy of them.
extern const Backend kDenseBackend, kBlockScaledBackend;

// Whether two operands with e8m0 scales are expected to be multiplied sooner by their folds, as fp8, than in any way of
// kBlockScaledBackend.
bool is_fold_faster(const Problem& problem, const Gpu& gpu);

// Whether rows that `format` quantizes are expected to be multiplied sooner as the numbers that their codes stand for,
// which are the problem's a, by a weight that alone has scales.
bool are_numbers_faster(const Problem& problem, Format format, const Gpu& gpu);

// Why a weight, the problem's b, cannot be prepared on this GPU; null where it can. The problem's m is 0.
const char* why_not_prepare_weight(const Problem& problem, const Gpu& gpu);
// Fills a weight's buffer; `scratch` has prepare_weight_scratch_bytes.
void prepare_weight(const Problem& problem, const PreparedWeight& weight, void* scratch, cudaStream_t stream);
int64_t prepare_weight_scratch_bytes(const Problem& problem);

}  // namespace tileon::sm90
