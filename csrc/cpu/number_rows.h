// The numbers of a row as float32: where they are, or converted. Loops without a branch, for the compiler's vectors.
#pragma once

#include <cstdint>

#include "core/block_quantize.h"
#include "core/elementwise_problems.h"
#include "core/small_floats.h"

namespace tileon {

constexpr int kNumbersAtOnce = 512;  // all that is made of so many numbers stays in the L1 cache

// bfloat16 is the upper half of float32.
inline float bfloat16_value(uint16_t upper) { return float_of(static_cast<uint32_t>(upper) << 16); }
inline float float32_value(float value) { return value; }

template <auto kValue, typename In>
void convert_numbers(const In* from, int64_t stride, int count, float* to) {
  if (stride == 1) {
    for (int i = 0; i < count; ++i) to[i] = kValue(from[i]);
  } else {
    for (int i = 0; i < count; ++i) to[i] = kValue(from[i * stride]);
  }
}

// `count` numbers of x, at most kNumbersAtOnce, from (row, k) on; `buffer` has place for them.
inline const float* load_numbers(const QuantizeProblem& problem, int64_t row, int64_t k, int count, float* buffer) {
  const int64_t offset = row * problem.stride_row + k * problem.stride_k;
  if (problem.dtype == DType::kFloat32) {
    const float* from = static_cast<const float*>(problem.x) + offset;
    if (problem.stride_k == 1) return from;
    convert_numbers<float32_value>(from, problem.stride_k, count, buffer);
  } else if (problem.dtype == DType::kFloat16) {
    convert_numbers<float16_value>(static_cast<const uint16_t*>(problem.x) + offset, problem.stride_k, count, buffer);
  } else {
    convert_numbers<bfloat16_value>(static_cast<const uint16_t*>(problem.x) + offset, problem.stride_k, count, buffer);
  }
  return buffer;
}

// Asks for numbers that will be loaded soon: while those at hand are worked on, their lines come.
inline void prefetch_numbers(const QuantizeProblem& problem, int64_t row, int64_t k, int count) {
  constexpr int kLine = 64;  // bytes
  if (problem.stride_k != 1 || row >= problem.rows) return;
  const int64_t bytes = info(problem.dtype).bytes;
  const char* from = static_cast<const char*>(problem.x) + (row * problem.stride_row + k) * bytes;
  for (int64_t i = 0; i < count * bytes; i += kLine) __builtin_prefetch(from + i, 0, 2);
}

// The largest magnitude as bits, whose order is that of the magnitudes: NaN above infinity above numbers.
inline uint32_t amax_bits_of(const float* numbers, int count) {
  uint32_t amax = 0;
#pragma GCC unroll 1  // or gcc writes the 16 of a block out, one by one, before it thinks of vectors
  for (int i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(numbers[i]) & 0x7fffffffu;
    amax = magnitude > amax ? magnitude : amax;
  }
  return amax;
}

// The largest magnitude of those that are finite.
inline float finite_amax_of(const float* numbers, int count) {
  uint32_t amax = amax_bits_of(numbers, count);
  if (is_finite_amax(amax)) return float_of(amax);
  amax = 0;
  for (int i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(numbers[i]) & 0x7fffffffu;
    const uint32_t finite = magnitude < 0x7f800000u ? magnitude : 0;
    amax = finite > amax ? finite : amax;
  }
  return float_of(amax);
}

}  // namespace tileon
