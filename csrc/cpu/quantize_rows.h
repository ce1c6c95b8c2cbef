// What threads do to their parts of a matrix that is quantized (cpu/quantize.cpp shares them out).
#pragma once

#include <cstdint>

#include "core/elementwise_problems.h"

namespace tileon {

// Rows [begin, end), of a format with packed scales; the padding of the scales is not written.
void quantize_rows(const QuantizeProblem& problem, int64_t begin, int64_t end);

// The same with a global scale for each row, which is found in the row.
void quantize_nvfp4_rows(const Nvfp4RowsProblem& problem, int64_t begin, int64_t end);

// Blocks [begin, end) in the order of their float32 scales in memory.
void quantize_blocks(const QuantizeProblem& problem, int64_t begin, int64_t end);

// The largest magnitude of rows [begin, end) as bits; NaN and infinity are above all numbers.
uint32_t amax_bits_of_rows(const QuantizeProblem& problem, int64_t begin, int64_t end);

// The codes of rows [begin, end) under one float32 scale.
void encode_rows(const QuantizeProblem& problem, const Float32Scale& scale, int64_t begin, int64_t end);

}  // namespace tileon
