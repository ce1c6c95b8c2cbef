// The floating-point numbers of 4 and 8 bits, decoded and encoded by their definitions (OCP Microscaling Formats 1.0,
// OCP 8-bit floating point): one definition, for the CPU and for kernels in which it is not the bottleneck.
//
//   e2m1  0 .5 1 1.5 2 3 4 6, bit 3 the sign; neither infinity nor NaN
//   e4m3  largest 448, NaN 0x7f and 0xff, no infinity, steps of 2^-9 below 2^-6
//   e5m2  float16 without its low byte: infinity 0x7c, NaN above
//   e8m0  2^(b - 127); 0 is 2^-127, not zero; NaN 255
//
// A product that is added to must be rounded before that: host code is compiled with -ffp-contract=off.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/host_device.h"

namespace tileon {

constexpr float kE2M1Max = 6.0f;
constexpr float kE4M3Max = 448.0f;
constexpr float kInt8Max = 127.0f;
constexpr float kE4M3MinNormal = 0.015625f;  // 2^-6
constexpr uint8_t kE4M3NaN = 0x7f;
constexpr uint8_t kE8M0NaN = 0xff;
constexpr uint8_t kE8M0One = 127;

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

// An IEEE half: its subnormal ones as above.
TILEON_HOST_DEVICE float float16_value(uint16_t half) {
  const uint32_t code = half & 0x7fffu, bits = code << 13;
  float magnitude = float_of(bits + (112u << 23));
  if (code < 0x0400u) magnitude = float_of(bits + (113u << 23)) - power_of_two(-14);
  if (code >= 0x7c00u) magnitude = float_of(bits | 0x7f800000u);
  return with_sign_of(magnitude, half >> 15 != 0);
}

TILEON_HOST_DEVICE float e8m0_value(uint32_t byte) {
  return byte == kE8M0NaN ? float_of(0x7fc00000u) : power_of_two(static_cast<int>(byte) - 127);
}

// ---- encoding: to nearest, ties to even; what lies beyond the largest value becomes that, infinity too ----

// Adding a number to a power of two large enough rounds it to the steps that float32 has there, and leaves its count of
// steps at the bottom of the sum. No branch: a loop over numbers becomes vector instructions.
//
// For such loops the code of a number, which is not NaN, is the low byte of a word; what stands above it is anything.

TILEON_HOST_DEVICE uint32_t e2m1_in_low_byte(float number) {
  constexpr uint32_t kSeven = 0x4a800007u;  // the bits of 2^22, where float32 has steps of 1/2, and the largest code
  const float magnitude = float_of(bits_of(number) & 0x7fffffffu);
  // Where e2m1 has steps of 1/2, the code is the count of halves; where its steps are 1, the count of ones plus two;
  // where they are 2, the count of twos plus four. The code is the smallest of these.
  const uint32_t halves = bits_of(magnitude + 4194304.0f);
  const uint32_t ones = bits_of(magnitude * 0.5f + 4194305.0f);
  const uint32_t twos = bits_of(magnitude * 0.25f + 4194306.0f);
  const uint32_t least = halves < ones ? halves : ones;
  const uint32_t sum = least < twos ? least : twos;
  return (bits_of(number) >> 28 & 8) | (sum < kSeven ? sum : kSeven);
}

TILEON_HOST_DEVICE uint32_t e4m3_in_low_byte(float number) {
  constexpr uint32_t kMax = 0x43e00000u, kLeast = 0x46800000u;  // 448; 2^14, where float32 has steps of 2^-9
  const uint32_t sign = bits_of(number) >> 24 & 0x80, magnitude = bits_of(number) & 0x7fffffffu;
  const uint32_t bits = magnitude < kMax ? magnitude : kMax;
  const uint32_t far = (bits & 0x7f800000u) + (20u << 23);  // 2^20 times the number's power of two
  const uint32_t power = far > kLeast ? far : kLeast;
  const uint32_t steps = bits_of(float_of(bits) + float_of(power));  // above the low byte, the bits of `power`
  return sign | (steps + (power >> 20) - (kLeast >> 20));
}

// Of a magnitude below 2^22, in two's complement.
TILEON_HOST_DEVICE uint32_t int8_in_low_byte(float number) {
  return bits_of(number + 12582912.0f);  // 1.5 * 2^23, where float32 has steps of 1
}

// NaN, for which there is no code, becomes 6 whatever its sign, which is the processor's own choice.
TILEON_HOST_DEVICE uint32_t e2m1_code(float value) { return value != value ? 7 : e2m1_in_low_byte(value) & 15; }

TILEON_HOST_DEVICE uint32_t e4m3_code(float value) {
  return value != value ? (bits_of(value) >> 24 & 0x80) | kE4M3NaN : e4m3_in_low_byte(value) & 0xff;
}

}  // namespace tileon
