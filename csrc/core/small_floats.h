// The floating-point numbers of 4 and 8 bits, decoded and encoded by their definitions (OCP Microscaling Formats 1.0,
// OCP 8-bit floating point): one definition, for the CPU and for kernels in which it is not the bottleneck.
//
//   e2m1  0 .5 1 1.5 2 3 4 6, bit 3 the sign; neither infinity nor NaN
//   e4m3  largest 448, NaN 0x7f and 0xff, no infinity, steps of 2^-9 below 2^-6
//   e5m2  float16 without its low byte: infinity 0x7c, NaN above
//   e8m0  2^(b - 127); 0 is 2^-127, not zero; NaN 255
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/host_device.h"

namespace tileon {

constexpr float kE2M1Max = 6.0f;
constexpr float kE4M3Max = 448.0f;
constexpr float kE4M3MinNormal = 0.015625f;  // 2^-6
constexpr uint8_t kE4M3NaN = 0x7f;
constexpr uint8_t kE8M0NaN = 0xff;

TILEON_HOST_DEVICE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TILEON_HOST_DEVICE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

TILEON_HOST_DEVICE float with_sign_of(float magnitude, bool negative) {
  return float_of(bits_of(magnitude) | static_cast<uint32_t>(negative) << 31);
}

// 2^exponent for -127 <= exponent <= 127, of which -127 is subnormal.
TILEON_HOST_DEVICE float power_of_two(int exponent) {
  return float_of(exponent == -127 ? 0x00400000u : static_cast<uint32_t>(exponent + 127) << 23);
}

// ---- decoding: exact ----

// Exponent and mantissa moved to where float32 has its own, under its bias. Subnormals, whose exponent is 0, get the
// leading 1 that they do not have and lose it again: float32's subnormals would do as well, but for threads that flush
// them.

TILEON_HOST_DEVICE float e2m1_value(uint32_t code) {
  const uint32_t bits = (code & 7) << 22;
  const float magnitude = (code & 6) == 0 ? float_of(bits + (127u << 23)) - 1.0f : float_of(bits + (126u << 23));
  return with_sign_of(magnitude, (code & 8) != 0);
}

TILEON_HOST_DEVICE float e4m3_value(uint32_t code) {
  const uint32_t bits = (code & 0x7f) << 20;
  float magnitude = float_of(bits + (120u << 23));
  if ((code & 0x78) == 0) magnitude = float_of(bits + (121u << 23)) - kE4M3MinNormal;
  if ((code & 0x7f) == kE4M3NaN) magnitude = float_of(0x7fc00000u);
  return with_sign_of(magnitude, (code & 0x80) != 0);
}

TILEON_HOST_DEVICE float e5m2_value(uint32_t code) {
  const uint32_t bits = (code & 0x7f) << 21;
  float magnitude = float_of(bits + (112u << 23));
  if ((code & 0x7c) == 0) magnitude = float_of(bits + (113u << 23)) - power_of_two(-14);
  if ((code & 0x7c) == 0x7c) magnitude = float_of(bits | 0x7f800000u);
  return with_sign_of(magnitude, (code & 0x80) != 0);
}

TILEON_HOST_DEVICE float e8m0_value(uint32_t byte) {
  return byte == kE8M0NaN ? float_of(0x7fc00000u) : power_of_two(static_cast<int>(byte) - 127);
}

// ---- encoding: to nearest, ties to even; what lies beyond the largest value becomes that, infinity too ----

// NaN, for which there is no code, becomes 6 whatever its sign, which is the processor's own choice.
TILEON_HOST_DEVICE uint32_t e2m1_code(float value) {
  if (value != value) return 7;
  const float magnitude = float_of(bits_of(value) & 0x7fffffffu);
  // between two values; the tie goes to the even code
  const uint32_t code = (magnitude <= 0.25f) + (magnitude < 0.75f) + (magnitude <= 1.25f) + (magnitude < 1.75f) +
                        (magnitude <= 2.5f) + (magnitude < 3.5f) + (magnitude <= 5.0f);
  return (7 - code) | (bits_of(value) >> 31) << 3;
}

TILEON_HOST_DEVICE uint32_t e4m3_code(float value) {
  const uint32_t sign = bits_of(value) >> 31 << 7;
  const float magnitude = float_of(bits_of(value) & 0x7fffffffu);
  if (magnitude != magnitude) return sign | kE4M3NaN;
  if (magnitude >= kE4M3Max) return sign | 0x7e;
  if (magnitude < kE4M3MinNormal) {  // steps of 2^-9: at 2^14 float32's own steps are as large
    return sign | (bits_of(magnitude + 16384.0f) & 15);
  }
  const uint32_t bits = bits_of(magnitude);
  const uint32_t rounded = bits + 0x0007ffffu + (bits >> 20 & 1);  // 20 bits go
  return sign | ((rounded >> 20) - (120 << 3));
}

}  // namespace tileon
