#include "arithmetic.h"

#include <bit>
#include <cstring>

namespace tileon::simulation {

namespace {

// Small floats have their exponent and mantissa where float32 has them once they are moved up; what the two exponents'
// biases differ by is a multiplication, which is right for subnormal numbers too.
inline float half_value(uint32_t code) {
  const uint32_t magnitude = (code & 0x7fff) << 13;
  const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude | 0x7f800000;
  const uint32_t bits = (code & 0x7c00) == 0x7c00 ? special : std::bit_cast<uint32_t>(finite);
  return std::bit_cast<float>(bits | (code & 0x8000) << 16);
}

inline float e4m3_value(uint32_t code) {
  const float finite = std::bit_cast<float>((code & 0x7f) << 20) * 0x1p120f;
  const uint32_t bits = (code & 0x7f) == 0x7f ? 0x7fc00000u : std::bit_cast<uint32_t>(finite);
  return std::bit_cast<float>(bits | (code & 0x80) << 24);
}

// Two bytes of little-endian memory, or four.
inline uint32_t load_16(const unsigned char* from) {
  uint16_t word;
  std::memcpy(&word, from, 2);
  return word;
}
inline uint32_t load_32(const unsigned char* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}

using Floats = float __attribute__((vector_size(64)));
using Integers = int32_t __attribute__((vector_size(64)));
using EightFloats = float __attribute__((vector_size(32)));

template <typename Vector, typename Scalar>
void multiply_rows(const Scalar* a, const Scalar* b, int k_step, int column_step, int k_count, int columns,
                   Scalar* sums) {
  // As many columns at once as make registers for their sums: 32 of 64 bytes, or 16 of fewer.
#ifdef __AVX512F__
  constexpr int at_once = 4;
#else
  constexpr int at_once = 1;
#endif
  constexpr int parts = 4;  // of 64 rows
  for (int first = 0; first < columns; first += at_once) {
    Vector acc[at_once][parts];
    for (int n = 0; n < at_once; ++n)
      for (int i = 0; i < parts; ++i) std::memcpy(&acc[n][i], sums + (first + n) * 64 + i * 16, 64);
    for (int k = 0; k < k_count; ++k) {
      Vector rows[parts];
      for (int i = 0; i < parts; ++i) std::memcpy(&rows[i], a + k * 64 + i * 16, 64);
      for (int n = 0; n < at_once; ++n) {
        const Scalar factor = b[k * k_step + (first + n) * column_step];
        for (int i = 0; i < parts; ++i) acc[n][i] += rows[i] * factor;
      }
    }
    for (int n = 0; n < at_once; ++n)
      for (int i = 0; i < parts; ++i) std::memcpy(sums + (first + n) * 64 + i * 16, &acc[n][i], 64);
  }
}

}  // namespace

void widen(Type type, const unsigned char* from, int count, float* to) {
  switch (type) {
    case Type::kFloat16:
      for (int i = 0; i < count; ++i) to[i] = half_value(load_16(from + 2 * i));
      return;
    case Type::kBFloat16:
      for (int i = 0; i < count; ++i) to[i] = std::bit_cast<float>(load_16(from + 2 * i) << 16);
      return;
    case Type::kTf32:
      for (int i = 0; i < count; ++i) to[i] = std::bit_cast<float>(load_32(from + 4 * i) & 0xffffe000u);
      return;
    case Type::kE4M3:
      for (int i = 0; i < count; ++i) to[i] = e4m3_value(from[i]);
      return;
    case Type::kE5M2:
      for (int i = 0; i < count; ++i) to[i] = half_value(uint32_t{from[i]} << 8);
      return;
    case Type::kInt8:
      for (int i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<int8_t>(from[i]));
      return;
  }
}

void widen(const int8_t* from, int count, int32_t* to) {
  for (int i = 0; i < count; ++i) to[i] = from[i];
}

void multiply_small(const float* a, const float* b, int k_count, float* d) {
  for (int m = 0; m < 16; m += 4) {
    EightFloats sums[4];
    for (int i = 0; i < 4; ++i) std::memcpy(&sums[i], d + (m + i) * 8, 32);
    for (int k = 0; k < k_count; ++k) {
      EightFloats row;
      std::memcpy(&row, b + k * 8, 32);
      for (int i = 0; i < 4; ++i) sums[i] += a[(m + i) * k_count + k] * row;
    }
    for (int i = 0; i < 4; ++i) std::memcpy(d + (m + i) * 8, &sums[i], 32);
  }
}

void multiply_64_rows(const float* a, const float* b, int k_step, int column_step, int k, int columns, float* sums) {
  multiply_rows<Floats>(a, b, k_step, column_step, k, columns, sums);
}

void multiply_64_rows(const int32_t* a, const int32_t* b, int k_step, int column_step, int k, int columns,
                      int32_t* sums) {
  multiply_rows<Integers>(a, b, k_step, column_step, k, columns, sums);
}

}  // namespace tileon::simulation
