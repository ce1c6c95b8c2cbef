// The fold of a row with e8m0 scales into e4m3 codes and one power of two: what `fast_accum` may make of an operand.
// One definition for the CPU and for kernels.
//
//   code' = e4m3(code 2^(scale - power)),   sum' = 2^power sum
//
// The power puts the row's largest element at the top of e4m3's range, so nothing overflows. An element of up to 13
// binades below the largest stays exact, since e4m3 holds its three bits of mantissa there. A smaller element is
// rounded to a multiple of 2^(power - 9), which is 2^-16 of the largest or less. NaN stays NaN, and decides no power.
#pragma once

#include "core/small_floats.h"

namespace tileon {

constexpr int kNoMagnitude = -(1 << 20);  // of an element that decides no power: 0 and NaN

// A number that grows with the magnitude of an element: 8 for each binade, and three bits of mantissa. `largest` is the
// largest code of the block as a number, 0 or above; `scale` is the block's.
TILEON_HOST_DEVICE int fold_magnitude(float largest, uint32_t scale) {
  if (largest == 0.0f || scale == kE8M0NaN) return kNoMagnitude;
  return static_cast<int>(bits_of(largest) >> 20) + 8 * (static_cast<int>(scale) - 127);
}

// The power of a row whose largest magnitude is this. e4m3's largest element is 1.75 x 2^8: a mantissa of 1.875 stops a
// binade before.
TILEON_HOST_DEVICE int fold_power(int magnitude) {
  if (magnitude == kNoMagnitude) return 0;
  constexpr int kBinades = 512;  // to divide a number above 0
  const int above_zero = magnitude + 8 * kBinades;
  return above_zero / 8 - kBinades - 127 - (above_zero % 8 == 7 ? 7 : 8);
}

// What the codes of a block are multiplied by. Below 2^-30 every code becomes 0.
TILEON_HOST_DEVICE float fold_factor(uint32_t scale, int power) {
  if (scale == kE8M0NaN) return float_of(0x7fc00000u);
  const int exponent = static_cast<int>(scale) - 127 - power;
  return power_of_two(exponent < -30 ? -30 : exponent > 30 ? 30 : exponent);
}

// A code times its factor, rounded: e4m3 has steps of 2^-9 at its lower end, and above it no more bits of mantissa than
// a code. So the number is rounded to those steps wherever it lies: float32 has them at 1.5 x 2^14.
constexpr float kFoldSteps = 24576.0f;

// 2^power as float32; of the smallest scales a subnormal number.
TILEON_HOST_DEVICE float fold_scale(int power) {
  return power < -126 ? float_of(1u << (power + 149)) : power_of_two(power);
}

// ---- a block's factor in a byte, for kernels that fold while they multiply ----
//
// Most bytes are quick: their kernel makes of them what it needs by an operation or two. A block with a factor beyond
// what its codes can have, has none but zeros and NaN, for which any factor will do.

// Of e4m3: the upper byte of the factor as float16, whose lower byte is 0. Rare are 2^-17, 2^-18, 2^16 and 2^17, whose
// bytes end in two ones. From 2^-19 on every code becomes 0.
constexpr uint32_t kNaNE4M3FoldByte = 0x7e;

TILEON_HOST_DEVICE uint32_t e4m3_fold_byte(uint32_t scale, int power) {
  if (scale == kE8M0NaN) return kNaNE4M3FoldByte;
  const int exponent = static_cast<int>(scale) - 127 - power;
  if (exponent < -18) return 0;
  if (exponent < -16) return static_cast<uint32_t>(-17 - exponent) << 2 | 3;
  if (exponent < -14) return 1u << (exponent + 16);  // subnormal in float16
  if (exponent < 16) return static_cast<uint32_t>(exponent + 15) << 2;
  return exponent < 18 ? static_cast<uint32_t>(exponent - 14) << 2 | 3 : 15u << 2;
}

TILEON_HOST_DEVICE bool has_rare_e4m3_fold_byte(uint32_t bytes) { return (bytes & bytes >> 1 & 0x01010101) != 0; }

TILEON_HOST_DEVICE float e4m3_fold_factor(uint32_t byte) {
  const int number = static_cast<int>(byte >> 2);
  if (byte == kNaNE4M3FoldByte) return float_of(0x7fc00000u);
  if ((byte & 3) == 3) return power_of_two(number < 2 ? -17 - number : 14 + number);
  return number == 0 ? static_cast<float>(byte) * power_of_two(-16) : power_of_two(number - 15);
}

// Of e2m1: the factor's exponent above -5, times eight, up to 2^6. Added to the bits of a code in e4m3, which is a
// normal number then, it multiplies it. Rare are the other factors from 2^-13, of which every code becomes 0, to 2^9:
// 0x80 and the exponent above -13.
constexpr uint32_t kRareE2M1FoldByte = 0x80, kNaNE2M1FoldByte = 0xff;

TILEON_HOST_DEVICE uint32_t e2m1_fold_byte(uint32_t scale, int power) {
  if (scale == kE8M0NaN) return kNaNE2M1FoldByte;
  const int exponent = static_cast<int>(scale) - 127 - power;
  if (exponent > 9) return 5u << 3;
  if (exponent >= -5 && exponent <= 6) return static_cast<uint32_t>(exponent + 5) << 3;
  return kRareE2M1FoldByte | static_cast<uint32_t>(exponent < -13 ? 0 : exponent + 13);
}

TILEON_HOST_DEVICE bool has_rare_e2m1_fold_byte(uint32_t bytes) { return (bytes & 0x80808080) != 0; }

TILEON_HOST_DEVICE float e2m1_fold_factor(uint32_t byte) {
  if (byte == kNaNE2M1FoldByte) return float_of(0x7fc00000u);
  const bool is_rare = (byte & kRareE2M1FoldByte) != 0;
  return power_of_two(is_rare ? static_cast<int>(byte & 0x7f) - 13 : static_cast<int>(byte >> 3) - 5);
}

}  // namespace tileon
