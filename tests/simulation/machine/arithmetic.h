// What the tensor cores compute, in plain loops that compilers turn into vectors.
#pragma once

#include <cstdint>

#include "machine.h"

namespace tileon::simulation {

constexpr int bytes_of(Type type) {
  return type == Type::kTf32 ? 4 : type == Type::kFloat16 || type == Type::kBFloat16 ? 2 : 1;
}

// `count` elements as float32, exactly. Of tf32 the tensor core reads the upper 19 bits.
void widen(Type type, const unsigned char* from, int count, float* to);
void widen(const int8_t* from, int count, int32_t* to);

// d[16][8] += a[16][k] b[k][8]; each sum is float32, in the order of k.
void multiply_small(const float* a, const float* b, int k, float* d);

// sums[columns][64] += a[k][64] b, of which element (k, column) lies at k * k_step + column * column_step.
void multiply_64_rows(const float* a, const float* b, int k_step, int column_step, int k, int columns, float* sums);
void multiply_64_rows(const int32_t* a, const int32_t* b, int k_step, int column_step, int k, int columns,
                      int32_t* sums);

}  // namespace tileon::simulation
