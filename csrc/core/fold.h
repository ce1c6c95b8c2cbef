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

}  // namespace tileon
