#include "cut_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tileon::simulation {

bool sums_are_cut = false;

namespace {

constexpr int kMostProducts = 32;
constexpr int kNoExponent = -1000;  // of zero: below all others

// Of elements that are not subnormal.
constexpr int least_exponent(Type type) {
  switch (type) {
    case Type::kFloat16:
    case Type::kE5M2:
      return -14;
    case Type::kE4M3:
      return -6;
    default:
      return -126;
  }
}

constexpr bool is_float8(Type type) { return type == Type::kE4M3 || type == Type::kE5M2; }

// A number as its type writes it: a subnormal one has the least exponent.
inline int exponent_of(float value, int least) {
  return std::max(static_cast<int>(std::bit_cast<uint32_t>(value) >> 23 & 0xff) - 127, least);
}

inline double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

// The number without what lies below its `bits` leading bits, or below float32's last.
inline float cut_to(double value, int bits) {
  if (std::abs(value) < 0x1p-126) return static_cast<float>(std::trunc(value * 0x1p149) * 0x1p-149);
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<uint64_t>(value) & ~uint64_t{0} << (53 - bits)));
}

}  // namespace

// MMA-Sim (arXiv 2511.10909): all terms are aligned to the largest exponent and cut below it, added without error, and
// the sum is cut again. An exponent of a product is that of its elements, added.
float cut_sum(Type a_type, const float* a, int a_step, Type b_type, const float* b, int b_step, int count, float sum) {
  const int a_least = least_exponent(a_type), b_least = least_exponent(b_type);
  double terms[kMostProducts + 1], plain = sum;
  int largest = sum == 0 ? kNoExponent : exponent_of(sum, -126);
  for (int i = 0; i < count; ++i) {
    const float left = a[i * a_step], right = b[i * b_step];
    terms[i] = static_cast<double>(left) * right;
    plain += terms[i];
    if (terms[i] != 0) largest = std::max(largest, exponent_of(left, a_least) + exponent_of(right, b_least));
  }
  terms[count] = sum;
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  if (largest == kNoExponent) return sum;
  const int unit = std::max(largest, -126) - (is_float8(a_type) ? 13 : 25);
  const double up = power_of_two(-unit);
  double total = 0;
  for (int i = 0; i <= count; ++i) total += std::trunc(terms[i] * up);
  return cut_to(total * power_of_two(unit), is_float8(a_type) ? 14 : 24);
}

float cut_sum_of_mma(Type a_type, const float* a, Type b_type, const float* b, int count, float sum) {
  if (!is_float8(a_type)) return cut_sum(a_type, a, 1, b_type, b, 1, count, sum);
  float part = 0;
  for (int pair = 0; pair < 4; pair += 2) {  // of each four elements, which lie in one register
    float left[16], right[16];
    for (int i = 0; i < 16; ++i) {
      const int at = i / 2 * 4 + pair + i % 2;
      left[i] = a[at];
      right[i] = b[at];
    }
    part = cut_sum(Type::kFloat16, left, 1, Type::kFloat16, right, 1, 16, part);
  }
  return sum + part;
}

}  // namespace tileon::simulation

extern "C" void simulation_cut_sums(int whether) { tileon::simulation::sums_are_cut = whether != 0; }
